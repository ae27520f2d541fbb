//! What a server offers, and the rules that its description keeps.

use crate::bytes::string;
use crate::wire::{
    MAXIMUM_PAYLOAD_BYTES, MINIMUM_BLOCK_BYTES, PREFERRED_BLOCK_BYTES, STRING_BYTES_MAX,
    transmission_flag,
};
use thiserror::Error;

/// Largest minimum block ("Size constraints").
const MINIMUM_BLOCK_BYTES_MAX: u32 = 1 << 16;

/// Smallest preferred block ("Size constraints").
const PREFERRED_BLOCK_BYTES_MIN: u32 = 512;

/// A block device that clients may choose by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Name that clients ask for. A client that names nothing gets the export with the empty name, else the
    /// first.
    pub name: String,
    /// A text for people; may be empty.
    pub description: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// [`transmission_flag`]s. `HAS_FLAGS` need not be set, and `DF` is not looked at: the session adds both.
    pub flags: u16,
    /// Offsets and lengths of requests are multiples of it.
    pub minimum_block_bytes: u32,
    /// Requests of multiples of it are fast.
    pub preferred_block_bytes: u32,
    /// Most bytes that one request or its reply carries.
    pub maximum_payload_bytes: u32,
}

impl Export {
    /// An export with default sizes of blocks and payloads, which can flush but nothing else.
    pub fn new(name: impl Into<String>, size_bytes: u64) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            size_bytes,
            flags: transmission_flag::FLUSH,
            minimum_block_bytes: MINIMUM_BLOCK_BYTES,
            preferred_block_bytes: PREFERRED_BLOCK_BYTES,
            maximum_payload_bytes: MAXIMUM_PAYLOAD_BYTES,
        }
    }

    /// Whether all of these [`transmission_flag`]s are set.
    pub fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }

    /// The flags to send to a client that has negotiated structured replies, or has not.
    pub fn transmission_flags(&self, is_structured: bool) -> u16 {
        // A client may use whatever is set. So bits of extensions go, and DF stays only where chunks are sent.
        let kept = self.flags & transmission_flag::ALL & !transmission_flag::DF;
        let fragments = if is_structured { transmission_flag::DF } else { 0 };
        kept | fragments | transmission_flag::HAS_FLAGS
    }

    /// Looks for what the protocol forbids.
    ///
    /// # Errors
    /// The first rule that the export breaks.
    pub fn check(&self) -> Result<(), ExportError> {
        let name = || self.name.clone();
        // Names go into messages of later checks, so they are judged first.
        for (field, text) in [("name", &self.name), ("description", &self.description)] {
            if string(text.as_bytes()).is_none() {
                let front = self.name.chars().take(40).filter(|letter| *letter != '\0').collect();
                return Err(ExportError::Text { name: front, field });
            }
        }
        // Bit 9 and bit 12 would promise commands that are refused here.
        let unknown = self.flags & !transmission_flag::ALL;
        if unknown != 0 {
            return Err(ExportError::UnknownFlags { name: name(), flags: unknown });
        }
        if self.has(transmission_flag::FAST_ZERO) && !self.has(transmission_flag::WRITE_ZEROES) {
            return Err(ExportError::FastZeroAlone { name: name() });
        }
        let minimum = self.minimum_block_bytes;
        if !minimum.is_power_of_two() || minimum > MINIMUM_BLOCK_BYTES_MAX {
            return Err(ExportError::MinimumBlock { name: name(), bytes: minimum });
        }
        let preferred = self.preferred_block_bytes;
        let least = minimum.max(PREFERRED_BLOCK_BYTES_MIN);
        if !preferred.is_power_of_two() || preferred < least {
            return Err(ExportError::PreferredBlock { name: name(), bytes: preferred, least });
        }
        // Otherwise a client that keeps to the preferred block could send nothing.
        let maximum = self.maximum_payload_bytes;
        if maximum < preferred {
            return Err(ExportError::MaximumPayload { name: name(), bytes: maximum, preferred });
        }
        // The last bytes could not be read or written.
        if !self.size_bytes.is_multiple_of(u64::from(minimum)) {
            let bytes = self.size_bytes;
            return Err(ExportError::Size { name: name(), bytes, minimum });
        }
        Ok(())
    }
}

/// Checks every export, and that their names differ.
///
/// # Errors
/// The first rule that an export breaks.
pub fn check_exports(exports: &[Export]) -> Result<(), ExportError> {
    if exports.is_empty() {
        return Err(ExportError::None);
    }
    for (index, export) in exports.iter().enumerate() {
        export.check()?;
        // Of two with one name no client could reach the second.
        if exports[..index].iter().any(|earlier| earlier.name == export.name) {
            return Err(ExportError::SameName { name: export.name.clone() });
        }
    }
    Ok(())
}

/// The export that a client means. An empty name means the default export.
pub(crate) fn find(exports: &[Export], name: &str) -> Option<usize> {
    // An export that really has the empty name goes first: it was made to be the default.
    let named = exports.iter().position(|export| export.name == name);
    named.or_else(|| (name.is_empty() && !exports.is_empty()).then_some(0))
}

/// What the protocol forbids in an export.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExportError {
    /// Nothing to offer.
    #[error("there is no export: name at least one")]
    None,
    /// Two exports with one name.
    #[error("two exports are named `{name}`: rename one")]
    SameName {
        /// The name.
        name: String,
    },
    /// A text that is too long or holds a zero byte.
    #[error(
        "the {field} of export `{name}` is longer than {STRING_BYTES_MAX} bytes or holds a zero byte: shorten it"
    )]
    Text {
        /// First characters of the name of the export.
        name: String,
        /// Which text.
        field: &'static str,
    },
    /// Bits without a meaning.
    #[error(
        "the flags of export `{name}` have the bits {flags:#x}, which mean nothing: clear them"
    )]
    UnknownFlags {
        /// The export.
        name: String,
        /// The bits.
        flags: u16,
    },
    /// `FAST_ZERO` without `WRITE_ZEROES`.
    #[error("export `{name}` has FAST_ZERO without WRITE_ZEROES: set both or none")]
    FastZeroAlone {
        /// The export.
        name: String,
    },
    /// A minimum block that is no power of two, or too large.
    #[error(
        "the minimum block of export `{name}` is {bytes} bytes: use a power of two up to {MINIMUM_BLOCK_BYTES_MAX}"
    )]
    MinimumBlock {
        /// The export.
        name: String,
        /// The minimum block.
        bytes: u32,
    },
    /// A preferred block that is no power of two, or too small.
    #[error(
        "the preferred block of export `{name}` is {bytes} bytes: use a power of two from {least}"
    )]
    PreferredBlock {
        /// The export.
        name: String,
        /// The preferred block.
        bytes: u32,
        /// The least that is allowed.
        least: u32,
    },
    /// A maximum payload below the preferred block.
    #[error("the maximum payload of export `{name}` is {bytes} bytes: use at least {preferred}")]
    MaximumPayload {
        /// The export.
        name: String,
        /// The maximum payload.
        bytes: u32,
        /// The preferred block.
        preferred: u32,
    },
    /// A size that the minimum block does not divide.
    #[error("export `{name}` has {bytes} bytes: use a multiple of its minimum block of {minimum}")]
    Size {
        /// The export.
        name: String,
        /// The size.
        bytes: u64,
        /// The minimum block.
        minimum: u32,
    },
}
