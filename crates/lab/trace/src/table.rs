//! The table of formats: listing, choice and detection use its rows.

use crate::contract::FormatEntry;
use crate::error::{Fault, Kind};
use crate::{
    alibaba, biosnoop, blkparse, blktrace, diskmon, disksim, f2fs, fio_iolog, fiu, ftrace,
    libcachesim_csv, midas, mqsim, msr, oracle_general, parquet, spc, systor, tencent, vscsi,
};

/// Every format, sorted by name.
pub static FORMATS: &[&FormatEntry] = &[
    &alibaba::ENTRY,
    &biosnoop::ENTRY,
    &blkparse::ENTRY,
    &blktrace::ENTRY,
    &diskmon::ENTRY,
    &disksim::ENTRY,
    &f2fs::ENTRY,
    &fio_iolog::ENTRY,
    &fiu::ENTRY,
    &ftrace::ENTRY,
    &libcachesim_csv::ENTRY,
    &midas::ENTRY,
    &mqsim::ENTRY_MQSIM,
    &msr::ENTRY,
    &oracle_general::ENTRY,
    &parquet::ENTRY,
    &spc::ENTRY,
    &mqsim::ENTRY_SSDSIM,
    &systor::ENTRY,
    &tencent::ENTRY,
    &vscsi::ENTRY,
];

/// The format of that name.
pub fn find(name: &str) -> Option<&'static FormatEntry> {
    FORMATS.iter().copied().find(|entry| entry.name == name)
}

/// The format of that name, or an error with the nearest one.
pub(crate) fn named(name: &str) -> Result<&'static FormatEntry, Fault> {
    find(name).ok_or_else(|| {
        let names = || FORMATS.iter().map(|entry| entry.name);
        let suggestion = match suggestion::nearest(name, names()) {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => format!("one of {}", names().collect::<Vec<_>>().join(", ")),
        };
        Fault::new(Kind::UnknownFormat, "the format is unknown").quoting(name).suggest(suggestion)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_names_are_unique() {
        assert!(FORMATS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }

    #[test]
    fn an_unknown_name_gets_the_nearest() {
        let fault = named("blkprase").err().unwrap();
        assert!(fault.to_string().contains("did you mean blkparse?"), "{fault}");
        assert!(
            named("xyzzy")
                .err()
                .unwrap()
                .to_string()
                .contains("one of alibaba, biosnoop, blkparse")
        );
    }
}
