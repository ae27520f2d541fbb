//! Every test of `serve` in one program, which is built in a fraction of the time of many.

mod client;
mod clients;
mod cuts;
mod images;
mod logs;
mod support;
