//! Numbers of physical blocks, of logical blocks and of volumes, as types that cannot be exchanged.
//!
//! Each is a `u32` on the medium and in the tools. Uses nothing of the crate.

use std::fmt;
use std::ops::{Add, Sub};

macro_rules! number {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(u32);

        impl $name {
            /// The type over a plain number, as headers and tables have it.
            pub const fn new(number: u32) -> Self {
                Self(number)
            }

            /// The number as headers and tables have it.
            pub const fn get(self) -> u32 {
                self.0
            }

            /// The number as an index of a table of all of them.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl From<u32> for $name {
            fn from(number: u32) -> Self {
                Self(number)
            }
        }

        impl From<$name> for u64 {
            fn from(number: $name) -> Self {
                number.0.into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(to)
            }
        }
    };
}

number! {
    /// Number of a physical block of the device (`pnum`).
    PebNumber
}

number! {
    /// Number of a logical block within its volume (`lnum`).
    #[derive(Default)]
    LebNumber
}

number! {
    /// Number of a volume of the device (`vol_id`).
    VolumeNumber
}

impl LebNumber {
    /// This number and those behind it, `count` of them.
    pub fn run(self, count: u32) -> impl DoubleEndedIterator<Item = Self> {
        (self.0..self.0 + count).map(Self)
    }
}

impl Add<u32> for LebNumber {
    type Output = Self;

    fn add(self, count: u32) -> Self {
        Self(self.0 + count)
    }
}

impl Sub for LebNumber {
    type Output = u32;

    /// How many logical blocks lie between the two.
    fn sub(self, first: Self) -> u32 {
        debug_assert!(first <= self, "logical block {self} lies before {first}");
        self.0 - first.0
    }
}

/// A logical block of the device: its volume, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LebAddress {
    /// The volume that it belongs to.
    pub volume: VolumeNumber,
    /// Its number within the volume.
    pub leb: LebNumber,
}

impl fmt::Display for LebAddress {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:{}", self.volume, self.leb)
    }
}
