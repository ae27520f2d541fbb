//! The versions of the tool: a row each.

/// A released version, by its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// v0.4 of June 2011, the first tag.
    V0_4,
    /// v0.5, which has `-R`.
    V0_5,
    /// v0.6 of August 2011.
    V0_6,
    /// v0.7 of February 2013, the first that writes.
    V0_7,
    /// v0.8, with units of powers of two by their names.
    V0_8,
    /// v0.9 of October 2014, the last with a clock of microseconds.
    V0_9,
    /// v1.0 of December 2016: nanoseconds, slots, a warm-up.
    V1_0,
    /// v1.1 of September 2018.
    V1_1,
    /// v1.2 of February 2020, with long names of options.
    V1_2,
    /// v1.3 of August 2022.
    V1_3,
}

/// When the next request begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The whole interval after the end of the last request.
    AfterRequest,
    /// At the next multiple of the interval; a late request moves all later ones.
    Slots,
}

/// How numbers are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Printing {
    /// Bytes, and milliseconds with one decimal.
    Milliseconds,
    /// In the largest unit that fits, with one decimal.
    OneDecimal,
    /// In the largest unit that fits: exact without decimals, from ten units on with one, else with two.
    UpToTwoDecimals,
}

/// What a version does that others do not.
#[derive(Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its tag in the repository of the tool.
    pub name: &'static str,
    /// What it is called in comparisons.
    pub version: Version,
    /// Resolution of its clock: `gettimeofday`, later `clock_gettime`.
    pub clock_ns: u64,
    /// When the next request begins.
    pub pace: Pace,
    /// Requests at the beginning that no statistics hold, unless `-a` says otherwise.
    pub warm_up: u64,
    /// How it prints numbers.
    pub printing: Printing,
}

const MICROSECOND_NS: u64 = 1_000;

const fn early(name: &'static str, version: Version, printing: Printing) -> Profile {
    Profile {
        name,
        version,
        clock_ns: MICROSECOND_NS,
        pace: Pace::AfterRequest,
        warm_up: 0,
        printing,
    }
}

const fn late(name: &'static str, version: Version) -> Profile {
    Profile {
        name,
        version,
        clock_ns: 1,
        pace: Pace::Slots,
        // The first request is slow where a device saves power, so 1.0 leaves it out.
        warm_up: 1,
        printing: Printing::UpToTwoDecimals,
    }
}

/// All versions, from the oldest to the newest.
pub const PROFILES: &[Profile] = &[
    early("v0.4", Version::V0_4, Printing::Milliseconds),
    early("v0.5", Version::V0_5, Printing::Milliseconds),
    early("v0.6", Version::V0_6, Printing::Milliseconds),
    early("v0.7", Version::V0_7, Printing::OneDecimal),
    early("v0.8", Version::V0_8, Printing::OneDecimal),
    early("v0.9", Version::V0_9, Printing::UpToTwoDecimals),
    late("v1.0", Version::V1_0),
    late("v1.1", Version::V1_1),
    late("v1.2", Version::V1_2),
    late("v1.3", Version::V1_3),
];

/// The version of a tag.
pub fn find_profile(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

#[cfg(test)]
mod tests {
    use super::PROFILES;

    #[test]
    fn the_table_goes_by_version() {
        assert!(PROFILES.windows(2).all(|pair| pair[0].version < pair[1].version));
        assert!(PROFILES.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}
