//! Every test of `sched` in one program, which is built in a fraction of the time of many.

mod deadline_bound;
mod dispatch_list;
mod merging;
mod mix;
mod promotion;
mod returned_and_joined;
mod sfq2_bounds;
mod sfq2_formula;
mod sfq2_kernel_mixes;
mod sfq2_rows;
mod state;
