//! `age`: time without power, at any temperature.

use nand::{Chip, rated_retention_ns};
use script::{Script, Step};

/// How the chip was aged so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aged {
    /// Time that passed at any temperature, milliseconds.
    pub milliseconds: u64,
    /// The same in nanoseconds at the rated temperature of 40 degrees Celsius.
    pub rated_ns: u64,
    /// The temperatures, in the order in which each first came, degrees Celsius.
    pub celsius: Vec<i32>,
}

/// Whether a script asks for bit errors. Others run on a chip without any, and draw nothing.
pub(crate) fn draws_bit_errors(script: &Script) -> bool {
    script.samples().any(|command| matches!(&command.step, Step::Control(line) if line.is_aging()))
}

/// Refuses more time than a chip can count.
pub(crate) fn check_age(milliseconds: u64, celsius: i32) -> Result<(), String> {
    if rated_retention_ns(milliseconds, f64::from(celsius)) == u64::MAX {
        return Err("the time is worth more than 584 years at 40C: take less, or a lower \
                    temperature"
            .into());
    }
    Ok(())
}

impl Aged {
    /// Lets time pass for the cells. The clock of the host stands still: it has no power.
    pub(crate) fn pass(&mut self, chip: &mut Chip, milliseconds: u64, celsius: i32) {
        let rated_ns = rated_retention_ns(milliseconds, f64::from(celsius));
        chip.age(rated_ns);
        self.milliseconds = self.milliseconds.saturating_add(milliseconds);
        self.rated_ns = self.rated_ns.saturating_add(rated_ns);
        if !self.celsius.contains(&celsius) {
            self.celsius.push(celsius);
        }
    }
}
