//! Every test of `device` in one program, which is built in a fraction of the time of many.

mod activity;
mod bkops;
mod cards;
mod disk;
mod flash;
mod parts;
mod power;
mod queues;
mod reads;
mod saved;
mod slc;
mod support;
