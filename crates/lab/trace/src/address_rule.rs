//! Addresses of a trace on a device that is smaller than the traced one.

/// What to do with an address past the end of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressRule {
    /// Stop with an error.
    #[default]
    Error,
    /// Wrap around at the end of the device.
    Modulo,
    /// Leave out what lies past the end.
    Clip,
}

impl AddressRule {
    /// The rule called `error`, `modulo` or `clip`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "error" => Some(Self::Error),
            "modulo" => Some(Self::Modulo),
            "clip" => Some(Self::Clip),
            _ => None,
        }
    }
}
