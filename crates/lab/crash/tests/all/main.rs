//! Every test of `crash` in one program, which is built in a fraction of the time of many.

mod checks;
mod document;
mod exhaustive;
mod expectations;
mod from_images;
mod history;
mod judge;
mod judge_by_itself;
mod losses_of_scripts;
mod minimised;
mod model;
mod mount_lines;
mod on_cards;
mod on_mtdblock;
mod revived_target;
mod searched;
mod small;
mod support;
mod watched;
mod wrappers;
