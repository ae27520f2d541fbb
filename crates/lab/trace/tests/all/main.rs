//! Every test of `trace` in one program, which is built in a fraction of the time of many.

mod errors;
mod formats;
mod parquet;
mod properties;
mod support;
mod throughput;
