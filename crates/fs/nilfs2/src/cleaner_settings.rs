//! Settings of the cleaning daemon.
//!
//! Names and defaults are those of `nilfs_cleanerd.conf` of nilfs-utils 2.2.
//!
//! May use: `profile`.

use crate::profile::Profile;

/// Settings of the daemon (`nilfs_cleanerd.conf`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanerSettings {
    /// Checkpoints younger than this are kept, seconds.
    pub protection_period_s: u64,
    /// Cleaning begins below so many clean segments beside those that are reserved, percent of all
    /// segments; always if zero.
    pub min_clean_percent: u64,
    /// Cleaning ends above so many clean segments beside those that are reserved, percent.
    pub max_clean_percent: u64,
    /// Time between looks at the number of clean segments, seconds.
    pub clean_check_interval_s: u64,
    /// Segments cleaned at once.
    pub segments_per_clean: usize,
    /// Time between cleanings, seconds.
    pub cleaning_interval_s: u64,
    /// Segments cleaned at once when clean segments are below the minimum.
    pub urgent_segments_per_clean: usize,
    /// Time between cleanings then, seconds.
    pub urgent_cleaning_interval_s: u64,
    /// Segments of which less can be won are left alone, percent.
    pub min_reclaimable_percent: u64,
    /// The same when clean segments are below the minimum.
    pub urgent_min_reclaimable_percent: u64,
}

impl Default for CleanerSettings {
    fn default() -> Self {
        Self {
            protection_period_s: 3600,
            min_clean_percent: 10,
            max_clean_percent: 20,
            clean_check_interval_s: 10,
            segments_per_clean: 2,
            cleaning_interval_s: 5,
            urgent_segments_per_clean: 4,
            urgent_cleaning_interval_s: 1,
            min_reclaimable_percent: 10,
            urgent_min_reclaimable_percent: 1,
        }
    }
}

impl CleanerSettings {
    /// The daemon of a kernel's time: nilfs-utils 2.2, or the first ones.
    pub fn of(profile: &Profile) -> Self {
        let settings = Self::default();
        if profile.cleaner_has_limits {
            return settings;
        }
        // The first daemons cleaned two segments every five seconds, whatever there was to win.
        Self {
            min_clean_percent: 0,
            max_clean_percent: 100,
            min_reclaimable_percent: 0,
            urgent_min_reclaimable_percent: 0,
            ..settings
        }
    }
}
