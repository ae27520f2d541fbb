//! Parameters of a layer, and those that every layer has.

use std::collections::BTreeMap;
use std::ops::Deref;

pub use ::settings::own;
pub use ::settings::{Kind, OwnPolicyError, OwnRows, Parameter, SettingError, Value};

/// Parameters that every layer has.
pub const COMMON_PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "wear_leveling",
        kind: crate::wear::KIND,
        default: "none",
        summary: "none: free blocks in order of release; dynamic: least-worn free block first; static: dynamic, and cold data moves to worn blocks",
    },
    Parameter {
        name: "wear_threshold",
        kind: Kind::Integer { min: 1, max: 1_000_000 },
        default: "100",
        summary: "static wear levelling acts when erase counts differ by more than this",
    },
    Parameter {
        name: "reserve_blocks",
        kind: Kind::Integer { min: 0, max: 1_000_000 },
        default: "0",
        summary: "blocks kept back to replace bad ones",
    },
];

/// All settings of one layer in one run: its own parameters and the common ones.
#[derive(Clone, Debug)]
pub struct Settings(::settings::Settings);

impl Settings {
    /// Checks `given` against `parameters` (and the common ones) and fills in defaults.
    ///
    /// # Errors
    /// [`SettingError`] for the first name or value that does not fit.
    pub fn new(
        parameters: &'static [Parameter],
        given: &BTreeMap<String, Value>,
    ) -> Result<Self, SettingError> {
        ::settings::Settings::new(&[COMMON_PARAMETERS, parameters], given).map(Self)
    }

    /// The same settings with a seed, for policies of the user's own.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self(self.0.with_seed(seed))
    }
}

impl Deref for Settings {
    type Target = ::settings::Settings;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
