//! Every trial of `ftl` in one program, which is built in a fraction of the time of many.

use libtest_mimic::{Arguments, Trial};

mod conformance;
mod faults;
mod golden;
mod parts_of_pages;
mod power_storm;
mod prepared_media;
mod ram;
mod requests;
mod support;
mod wear;
mod write_amplification;

fn main() {
    let rooms = [
        ("conformance", conformance::trials()),
        ("faults", faults::trials()),
        ("golden", golden::trials()),
        ("parts_of_pages", parts_of_pages::trials()),
        ("power_storm", power_storm::trials()),
        ("prepared_media", prepared_media::trials()),
        ("ram", ram::trials()),
        ("requests", requests::trials()),
        ("wear", wear::trials()),
        ("write_amplification", write_amplification::trials()),
    ];
    let trials: Vec<Trial> = rooms
        .into_iter()
        .flat_map(|(room, trials)| trials.into_iter().map(move |trial| trial.with_kind(room)))
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
