//! What a file system, or a layer below it, finds wrong with its medium.

use std::fmt::{self, Display, Formatter};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is lost: a recovery, or what is done otherwise than asked.
    Note,
    /// The medium failed, and the layer deals with it: a bad block, a failed program.
    Failure,
    /// Something on the medium is damaged or contradicts itself.
    Damage,
}

/// Where something was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The medium or the file system as a whole.
    Whole,
    /// A byte of the medium.
    Address(u64),
    /// A block: an erase block of raw NAND, a block or cluster of a block device.
    Block(u64),
    /// A byte of a logical erase block.
    Leb(u32, u32),
    /// A page, or a chunk of several.
    Page(u64),
    /// An inode or object.
    Inode(u64),
}

impl Display for Place {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => write!(to, "the file system"),
            Self::Address(address) => write!(to, "{address:#x}"),
            Self::Block(block) => write!(to, "block {block}"),
            Self::Leb(leb, offset) => write!(to, "LEB {leb}:{offset}"),
            Self::Page(page) => write!(to, "page {page}"),
            Self::Inode(inode) => write!(to, "inode {inode}"),
        }
    }
}

/// What was found. Programs match on `code`; `text` is for people alone and may change at any time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Name of the finding: that of the layer, a dash, and what is wrong (`ubi-data-unreadable`).
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// Where it was found.
    pub place: Place,
    /// A whole sentence, the place included.
    pub text: String,
}

impl Display for Finding {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        self.text.fmt(to)
    }
}

/// Declares the codes of one layer's findings: an enum with a name and a severity a variant.
///
/// The names are unique over all layers, because they begin with the layer's; a test of `file_systems` says
/// so.
#[macro_export]
macro_rules! finding_codes {
    ($(#[$outer:meta])* $view:vis enum $codes:ident {
        $($(#[$inner:meta])* $variant:ident = $name:literal, $severity:ident;)+
    }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        $view enum $codes {
            $($(#[$inner])* $variant,)+
        }

        impl $codes {
            /// Every code of this file system, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Name of the code, as [`Finding::code`]($crate::Finding::code) has it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// How bad it is.
            pub const fn severity(self) -> $crate::Severity {
                match self {
                    $(Self::$variant => $crate::Severity::$severity,)+
                }
            }

            /// The finding at a place, with a sentence that describes it.
            pub fn at(self, place: $crate::Place, text: impl Into<String>) -> $crate::Finding {
                let (code, severity) = (self.name(), self.severity());
                $crate::Finding { code, severity, place, text: text.into() }
            }
        }
    };
}
