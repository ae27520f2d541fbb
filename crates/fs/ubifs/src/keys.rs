//! Keys of the index: what a node describes, in one order for all.
//!
//! Source: `fs/ubifs/key.h` ("simple" keys). A format: uses nothing of the crate.

/// Kinds of keys, in their order within an inode.
pub(crate) mod kind {
    pub(crate) const INODE: u32 = 0;
    pub(crate) const DATA: u32 = 1;
    pub(crate) const ENTRY: u32 = 2;
    pub(crate) const ATTRIBUTE: u32 = 3;
}

/// Bits of the block number or hash below the kind.
const LOW_BITS: u32 = 29;
const LOW_MASK: u32 = (1 << LOW_BITS) - 1;
/// Largest number of a block of data.
pub(crate) const LAST_BLOCK: u32 = LOW_MASK;

/// Key of a node: inode, then kind and block number or hash of the name. The order of keys is the
/// order of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) inode: u32,
    pub(crate) rest: u32,
}

/// Bytes of a key in index nodes.
pub(crate) const KEY_BYTES: usize = 8;

impl Key {
    /// The lowest key of an inode, and the key of the inode itself.
    pub(crate) const fn inode(inode: u64) -> Self {
        debug_assert!(inode <= u32::MAX as u64, "keys have 32 bits for an inode");
        Self { inode: inode as u32, rest: 0 }
    }

    /// Above all keys of an inode.
    pub(crate) const fn last_of(inode: u64) -> Self {
        Self { inode: inode as u32, rest: u32::MAX }
    }

    pub(crate) const fn data(inode: u64, block: u32) -> Self {
        debug_assert!(block <= LAST_BLOCK, "the block fits the bits below the kind");
        Self { inode: inode as u32, rest: kind::DATA << LOW_BITS | block }
    }

    pub(crate) fn entry(inode: u64, name: &[u8]) -> Self {
        Self { inode: inode as u32, rest: kind::ENTRY << LOW_BITS | r5_hash(name) }
    }

    /// Below all entries of a directory.
    pub(crate) const fn first_entry(inode: u64) -> Self {
        Self { inode: inode as u32, rest: kind::ENTRY << LOW_BITS }
    }

    pub(crate) fn attribute(inode: u64, name: &[u8]) -> Self {
        Self { inode: inode as u32, rest: kind::ATTRIBUTE << LOW_BITS | r5_hash(name) }
    }

    /// Below all extended attributes of an inode.
    pub(crate) const fn first_attribute(inode: u64) -> Self {
        Self { inode: inode as u32, rest: kind::ATTRIBUTE << LOW_BITS }
    }

    pub(crate) const fn kind(self) -> u32 {
        self.rest >> LOW_BITS
    }

    /// Block number or hash.
    pub(crate) const fn low(self) -> u32 {
        self.rest & LOW_MASK
    }

    /// Several nodes may have this key: it is a hash of a name.
    pub(crate) const fn is_hashed(self) -> bool {
        matches!(self.kind(), kind::ENTRY | kind::ATTRIBUTE)
    }

    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Self { inode: word(0), rest: word(4) }
    }

    pub(crate) fn put(self, into: &mut [u8]) {
        into[..4].copy_from_slice(&self.inode.to_le_bytes());
        into[4..8].copy_from_slice(&self.rest.to_le_bytes());
    }
}

/// R5 hash of a name; the lowest values stand for the dots of a directory.
pub(crate) fn r5_hash(name: &[u8]) -> u32 {
    let hash = name.iter().fold(0_u32, |hash, byte| {
        let byte = i32::from(byte.cast_signed());
        let sum = hash
            .wrapping_add((byte << 4).cast_unsigned())
            .wrapping_add((byte >> 4).cast_unsigned());
        sum.wrapping_mul(11)
    }) & LOW_MASK;
    if hash <= 2 { hash + 3 } else { hash }
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn names_hash_as_on_images_of_mkfs() {
        for (name, rest) in [
            ("d", 0x4000_4502),
            ("lnk", 0x4026_c3fa),
            ("sub", 0x4029_3eb6),
            ("zero", 0x41da_451a),
            ("hello.txt", 0x5095_21d5),
            ("f1", 0x4003_2807),
        ] {
            assert_eq!(Key::entry(1, name.as_bytes()).rest, rest, "{name}");
        }
    }

    #[test]
    fn keys_sort_by_inode_then_kind() {
        let keys = [
            Key::inode(5),
            Key::data(5, 0),
            Key::data(5, 9),
            Key::entry(5, b"a"),
            Key::attribute(5, b"a"),
            Key::last_of(5),
            Key::inode(6),
        ];
        assert!(keys.is_sorted());
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "the block fits the bits below the kind")]
    fn a_block_that_would_change_the_kind_is_noticed() {
        let _ = Key::data(5, super::LAST_BLOCK + 1);
    }
}
