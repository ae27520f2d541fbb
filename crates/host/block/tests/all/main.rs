//! Every test of `block` in one program, which is built in a fraction of the time of many.

mod awaited;
mod limit;
mod packed;
mod plugging;
mod queueing_theory;
mod queues;
mod served;
mod support;
mod waiting;
