//! Every test of `page_cache` in one program, which is built in a fraction of the time of many.

mod backing;
mod cache_state;
mod direct;
mod flusher;
mod quasi_async;
mod reading;
mod support;
mod write_back;
