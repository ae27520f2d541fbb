//! Every test of `sim` in one program, which is built in a fraction of the time of many.

mod channel;
mod cpus;
mod locks;
mod order;
mod random_tasks;
mod stop;
mod support;
mod timers;
mod work;
