//! Every test of `nbd` in one program.

mod client_side;
mod exports;
mod fuzz;
mod handshake_rows;
mod nbdkit_rows;
mod recorded_clients;
mod reply_rows;
mod request_rows;
mod splits;
mod support;
