//! How long operations take, from the data sheet's array times and the bus.
//!
//! A read is tR and then the transfer, a program the transfer and then tPROG, an erase tBERS. Left
//! out: command and address cycles, status polling, cache and multi-plane commands.

use crate::{Counters, Geometry};
use serde::{Deserialize, Serialize};

/// A bus timing mode and the time one byte takes on an 8-bit bus.
#[derive(Clone, Copy, Debug)]
pub struct BusMode {
    /// Name used in part files.
    pub name: &'static str,
    /// Time of a byte, in picoseconds.
    pub transfer_ps_per_byte: u64,
    /// Where the figure stands.
    pub source: &'static str,
}

/// ONFI data-interface modes, sorted by name.
pub const BUS_MODES: &[BusMode] = &[
    mode("nv-ddr-0", 25_000, "ONFI 2.0: 40 MT/s"),
    mode("nv-ddr-1", 15_000, "ONFI 2.0: 67 MT/s"),
    mode("nv-ddr-2", 10_000, "ONFI 2.0: 100 MT/s"),
    mode("nv-ddr-3", 7_500, "ONFI 2.0: 133 MT/s"),
    mode("nv-ddr-4", 6_000, "ONFI 2.1: 167 MT/s"),
    mode("nv-ddr-5", 5_000, "ONFI 2.2: 200 MT/s"),
    mode("nv-ddr2-400", 2_500, "ONFI 3.0: 400 MT/s"),
    mode("nv-ddr2-533", 1_876, "ONFI 3.2: 533 MT/s"),
    mode("nv-ddr3-1200", 834, "ONFI 4.1: 1200 MT/s"),
    mode("nv-ddr3-800", 1_250, "ONFI 4.0: 800 MT/s"),
    mode("nv-lpddr4-2400", 417, "ONFI 5.0: 2400 MT/s"),
    mode("sdr-0", 100_000, "ONFI 1.0 timing mode 0: tRC 100 ns"),
    mode("sdr-1", 50_000, "ONFI 1.0 timing mode 1: tRC 50 ns"),
    mode("sdr-2", 35_000, "ONFI 1.0 timing mode 2: tRC 35 ns"),
    mode("sdr-3", 30_000, "ONFI 1.0 timing mode 3: tRC 30 ns"),
    mode("sdr-4", 25_000, "ONFI 1.0 timing mode 4: tRC 25 ns"),
    mode("sdr-5", 20_000, "ONFI 1.0 timing mode 5: tRC 20 ns"),
];

const fn mode(name: &'static str, transfer_ps_per_byte: u64, source: &'static str) -> BusMode {
    BusMode { name, transfer_ps_per_byte, source }
}

/// Array and bus times of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Array to page register (tR): one time for all pages, or one entry for each page of a word line, lower page
    /// first. No page is read faster than a lower one.
    #[serde(with = "one_or_several")]
    pub read_ns: Vec<u64>,
    /// Page register to array (tPROG), one entry for each page of a word line, lower page first.
    pub program_ns: Vec<u64>,
    /// Array time of a block erase (tBERS).
    pub erase_ns: u64,
    /// Name of a mode in [`BUS_MODES`]; exclusive with `transfer_ps_per_byte`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
    /// Picoseconds per byte on the bus, where the part states a cycle time of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer_ps_per_byte: Option<u64>,
}

impl Timing {
    /// Picoseconds one byte takes on the bus.
    pub fn transfer_ps_per_byte(&self) -> u64 {
        let named = |name: &String| BUS_MODES.iter().find(|mode| mode.name == name);
        self.transfer_ps_per_byte
            .or_else(|| self.bus.as_ref().and_then(named).map(|mode| mode.transfer_ps_per_byte))
            .unwrap_or(0)
    }

    /// Nanoseconds to move `bytes` over the bus, rounded to the nearest.
    pub fn transfer_ns(&self, bytes: u32) -> u64 {
        // Rounded once for the whole transfer.
        (self.transfer_ps_per_byte() * u64::from(bytes) + 500) / 1000
    }

    /// Array time of a read at `position` in its word line.
    pub fn array_read_ns(&self, position: u32) -> u64 {
        // Without entries of their own all pages are read alike.
        self.read_ns[(position as usize).min(self.read_ns.len() - 1)]
    }

    /// Array time of a read of a lower page, and of any page where all are read alike.
    #[inline]
    pub fn lower_read_ns(&self) -> u64 {
        self.read_ns[0]
    }

    /// Time of a full page read, of a lower page: tR, then data and spare over the bus.
    pub fn page_read_ns(&self, geometry: &Geometry) -> u64 {
        // Data and spare area cross the bus together, because the controller's ECC needs both.
        self.lower_read_ns() + self.transfer_ns(geometry.page_data_bytes + geometry.page_oob_bytes)
    }

    /// Time of a spare-only read, of a lower page.
    pub fn spare_read_ns(&self, geometry: &Geometry) -> u64 {
        // The array brings the whole page into the register in any case; the column address selects
        // what crosses the bus (Change Read Column of ONFI 1.0).
        self.lower_read_ns() + self.transfer_ns(geometry.page_oob_bytes)
    }

    /// Time of a full page program at `position` in its word line.
    pub fn page_program_ns(&self, geometry: &Geometry, position: usize) -> u64 {
        let array_ns = self.program_ns[position.min(self.program_ns.len() - 1)];
        self.transfer_ns(geometry.page_data_bytes + geometry.page_oob_bytes) + array_ns
    }

    /// Time of a spare-only program.
    pub fn spare_program_ns(&self, geometry: &Geometry) -> u64 {
        // A spare area alone takes the array time of the first page of a word line.
        self.transfer_ns(geometry.page_oob_bytes) + self.program_ns[0]
    }

    /// Busy time by kind for operations counted on a part whose pages are all read and programmed alike.
    ///
    /// Returns read, program and erase nanoseconds. On other parts use [`crate::Chip::busy_ns`], which knows
    /// the positions of the pages in their word lines.
    pub fn busy_ns(&self, geometry: &Geometry, counters: &Counters) -> [u64; 3] {
        [
            counters.page_reads * self.page_read_ns(geometry)
                + counters.spare_reads * self.spare_read_ns(geometry),
            counters.page_programs * self.page_program_ns(geometry, 0)
                + counters.spare_programs * self.spare_program_ns(geometry),
            counters.erases * self.erase_ns,
        ]
    }

    /// Says in one sentence what is wrong with these numbers, if anything.
    ///
    /// # Errors
    /// A sentence that names the key of `timing` outside its range, and the permitted values.
    pub fn check(&self) -> Result<(), String> {
        if self.program_ns.is_empty() || self.program_ns.len() > 4 {
            return Err(
                "timing.program_ns needs one to four entries, one a page of a word line".into()
            );
        }
        let second_ns = 1_000_000_000;
        if self.read_ns.is_empty() || self.read_ns.len() > 4 {
            return Err(
                "timing.read_ns needs one to four entries, one a page of a word line".into()
            );
        }
        if self.read_ns.iter().any(|ns| *ns < self.read_ns[0]) {
            return Err("timing.read_ns begins with the lower page, the fastest one".into());
        }
        if self.read_ns.iter().any(|ns| *ns > second_ns) {
            return Err("timing.read_ns must be at most 1000000000 (1 s)".into());
        }
        if self.program_ns.iter().any(|ns| *ns > second_ns) {
            return Err("timing.program_ns must be at most 1000000000 (1 s)".into());
        }
        if self.erase_ns > 10 * second_ns {
            return Err("timing.erase_ns must be at most 10000000000 (10 s)".into());
        }
        match (&self.bus, self.transfer_ps_per_byte) {
            (Some(_), Some(_)) => {
                Err("timing.bus and transfer_ps_per_byte exclude each other: give one".into())
            }
            (None, None) => Err("timing needs bus or transfer_ps_per_byte".into()),
            (None, Some(ps)) if ps > 1_000_000_000 => {
                Err("timing.transfer_ps_per_byte must be at most 1000000000 (1 ms)".into())
            }
            (Some(bus), None) if !BUS_MODES.iter().any(|mode| mode.name == bus) => {
                let known: Vec<&str> = BUS_MODES.iter().map(|mode| mode.name).collect();
                Err(format!("timing.bus: unknown mode `{bus}`; known: {}", known.join(", ")))
            }
            _ => Ok(()),
        }
    }
}

/// A list that is written as a number where it has one entry.
mod one_or_several {
    use serde::de::{self, Deserializer, SeqAccess, Visitor};
    use serde::{Serialize, Serializer};
    use std::fmt;

    pub(super) fn serialize<S: Serializer>(times: &[u64], to: S) -> Result<S::Ok, S::Error> {
        match times {
            [one] => one.serialize(to),
            several => several.serialize(to),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
        from.deserialize_any(Times)
    }

    struct Times;

    impl<'de> Visitor<'de> for Times {
        type Value = Vec<u64>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("nanoseconds, or a list of them, one a page of a word line")
        }

        fn visit_u64<E: de::Error>(self, one: u64) -> Result<Self::Value, E> {
            Ok(vec![one])
        }

        // TOML has signed integers.
        fn visit_i64<E: de::Error>(self, one: i64) -> Result<Self::Value, E> {
            let whole = u64::try_from(one);
            whole
                .map(|one| vec![one])
                .map_err(|_| E::invalid_value(de::Unexpected::Signed(one), &self))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut times = Vec::new();
            while let Some(one) = list.next_element()? {
                times.push(one);
            }
            Ok(times)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::BUS_MODES;

    #[test]
    fn the_table_is_sorted_and_its_names_are_unique() {
        assert!(BUS_MODES.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}
