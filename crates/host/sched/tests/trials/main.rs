//! Every trial of `sched` in one program, which is built in a fraction of the time of many.

use libtest_mimic::{Arguments, Trial};

mod kernel_decisions;
mod properties;
mod recordings;
mod scenarios;

fn main() {
    let rooms = [
        ("kernel_decisions", kernel_decisions::trials()),
        ("properties", properties::trials()),
        ("recordings", recordings::trials()),
        ("scenarios", scenarios::trials()),
    ];
    let trials: Vec<Trial> = rooms
        .into_iter()
        .flat_map(|(room, trials)| trials.into_iter().map(move |trial| trial.with_kind(room)))
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
