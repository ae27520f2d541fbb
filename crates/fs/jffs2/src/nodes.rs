//! Nodes as they stand on the medium: parsing and writing.
//!
//! Layouts follow `include/uapi/linux/jffs2.h`, little-endian. Every node begins with a common header
//! and stands on a multiple of four bytes within one erase block.
//!
//! May use no other file of the crate.

/// Magic number of every node.
pub const MAGIC: u16 = 0x1985;
/// Node types, with their compatibility bits.
pub const DIRENT: u16 = 0xe001;
/// Inode, with or without data.
pub const INODE: u16 = 0xe002;
/// Marks a block that was erased completely, where it stands in band.
pub const CLEANMARKER: u16 = 0x2003;
/// Fills a page that was flushed before it was full.
pub const PADDING: u16 = 0x2004;
/// Summary of an erase block, its last node.
pub const SUMMARY: u16 = 0x2006;
/// Name and value of an extended attribute.
pub const XATTR: u16 = 0xe008;
/// Ties an extended attribute to an inode.
pub const XREF: u16 = 0xe009;
/// The bit that is cleared in a node marked obsolete on NOR flash.
pub const ACCURATE: u16 = 0x2000;
/// The bits that say what to do with a node of unknown type.
pub const COMPATIBILITY_MASK: u16 = 0xc000;

/// Bytes of the common header.
pub const HEADER_BYTES: usize = 12;
/// Bytes of a directory entry without its name.
pub const DIRENT_BYTES: usize = 40;
/// Bytes of an inode node without data.
pub const INODE_BYTES: usize = 68;
/// Bytes of an extended attribute without name and value.
pub const XATTR_BYTES: usize = 32;
/// Bytes of a reference to an extended attribute.
pub const XREF_BYTES: usize = 28;
/// Longest name of a directory entry.
pub const NAME_BYTES_MAX: usize = 254;
/// Longest target of a symbolic link (`jffs2_symlink` in `fs/jffs2/dir.c`): as long as a name.
pub(crate) const TARGET_BYTES_MAX: usize = NAME_BYTES_MAX;
/// Kind of directories in directory entries (`DT_DIR`).
pub(crate) const DT_DIR: u8 = 4;
/// Fewest bytes of data that are worth a node of their own at the end of a block.
pub const DATA_BYTES_MIN: u32 = 128;
/// Bytes of a page of file data: a node never crosses its end.
pub const PAGE_BYTES: u32 = fs_api::PAGE_BYTES as u32;

/// CRC-32 as JFFS2 uses it: reflected, beginning with zero, not inverted at the end.
pub fn crc(bytes: &[u8]) -> u32 {
    crc_continued(0, bytes)
}

/// [`crc`] over further bytes.
pub fn crc_continued(before: u32, bytes: &[u8]) -> u32 {
    // The library inverts the start value and the result; the kernel's `crc32` does neither.
    let mut hasher = crc32fast::Hasher::new_with_initial(!before);
    hasher.update(bytes);
    !hasher.finalize()
}

/// Rounds up to the alignment of nodes.
pub const fn padded(bytes: u32) -> u32 {
    (bytes + 3) & !3
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The common header of all nodes (`struct jffs2_unknown_node`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// [`MAGIC`], unless the bytes are none of JFFS2.
    pub magic: u16,
    /// Node type with its compatibility bits.
    pub node_type: u16,
    /// Bytes of the whole node, without padding.
    pub total_bytes: u32,
    /// CRC of the fields above.
    pub header_crc: u32,
}

impl Header {
    /// The header at the beginning of `bytes`, which are [`HEADER_BYTES`] at least.
    pub fn parse(bytes: &[u8]) -> Self {
        Self {
            magic: u16_at(bytes, 0),
            node_type: u16_at(bytes, 2),
            total_bytes: u32_at(bytes, 4),
            header_crc: u32_at(bytes, 8),
        }
    }

    /// A header of a node to be written.
    pub fn new(node_type: u16, total_bytes: u32) -> Self {
        let mut header = Self { magic: MAGIC, node_type, total_bytes, header_crc: 0 };
        header.header_crc = crc(&header.to_bytes()[..8]);
        header
    }

    /// The header as it stands on the medium.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..2].copy_from_slice(&self.magic.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.node_type.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.total_bytes.to_le_bytes());
        bytes[8..].copy_from_slice(&self.header_crc.to_le_bytes());
        bytes
    }

    /// The CRC holds; an obsolete node is judged as it was before it was marked.
    pub fn is_valid(&self) -> bool {
        // The CRC was computed before the bit was cleared on the medium.
        let accurate = Self { node_type: self.node_type | ACCURATE, ..*self };
        self.magic == MAGIC && crc(&accurate.to_bytes()[..8]) == self.header_crc
    }
}

/// An inode node without its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InodeNode {
    /// Inode that the node belongs to.
    pub inode: u32,
    /// Version within the inode: the highest tells the attributes.
    pub version: u32,
    /// Type and permission bits.
    pub mode: u32,
    /// User ID of the owner, 16 bits.
    pub uid: u16,
    /// Group ID of the owner, 16 bits.
    pub gid: u16,
    /// Bytes of the file as of this node.
    pub file_bytes: u32,
    /// Time of the last access, seconds since 1970.
    pub accessed: u32,
    /// Last change of data, seconds.
    pub modified: u32,
    /// Last change of the inode, seconds.
    pub changed: u32,
    /// Where in the file the data begins.
    pub offset: u32,
    /// Bytes of data as stored, compressed.
    pub stored_bytes: u32,
    /// Bytes of the file that the data stands for.
    pub data_bytes: u32,
    /// Number of the compressor, see [`crate::compress`].
    pub compressor: u8,
    /// Compressor that the user asked for.
    pub user_compressor: u8,
    /// Flags; this engine sets none.
    pub flags: u16,
    /// CRC of the stored bytes.
    pub data_crc: u32,
    /// CRC of the node up to [`InodeNode::data_crc`].
    pub node_crc: u32,
}

impl InodeNode {
    /// Parses a node that begins with a header; none if the bytes are too few or the CRC is wrong.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < INODE_BYTES {
            return None;
        }
        let node = Self {
            inode: u32_at(bytes, 12),
            version: u32_at(bytes, 16),
            mode: u32_at(bytes, 20),
            uid: u16_at(bytes, 24),
            gid: u16_at(bytes, 26),
            file_bytes: u32_at(bytes, 28),
            accessed: u32_at(bytes, 32),
            modified: u32_at(bytes, 36),
            changed: u32_at(bytes, 40),
            offset: u32_at(bytes, 44),
            stored_bytes: u32_at(bytes, 48),
            data_bytes: u32_at(bytes, 52),
            compressor: bytes[56],
            user_compressor: bytes[57],
            flags: u16_at(bytes, 58),
            data_crc: u32_at(bytes, 60),
            node_crc: u32_at(bytes, 64),
        };
        (crc(&bytes[..60]) == node.node_crc).then_some(node)
    }

    /// The whole node with its data; CRCs and lengths are filled in.
    pub fn to_bytes(self, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(INODE_BYTES + data.len() + 3);
        let total = (INODE_BYTES + data.len()) as u32;
        bytes.extend_from_slice(&Header::new(INODE, total).to_bytes());
        for word in [self.inode, self.version, self.mode] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&self.uid.to_le_bytes());
        bytes.extend_from_slice(&self.gid.to_le_bytes());
        let stored_bytes = data.len() as u32;
        for word in [
            self.file_bytes,
            self.accessed,
            self.modified,
            self.changed,
            self.offset,
            stored_bytes,
            self.data_bytes,
        ] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&[self.compressor, self.user_compressor]);
        bytes.extend_from_slice(&self.flags.to_le_bytes());
        // The node's CRC leaves out the CRC of the data, so a scan can check the node without its
        // data.
        let node_crc = crc(&bytes[..60]);
        bytes.extend_from_slice(&crc(data).to_le_bytes());
        bytes.extend_from_slice(&node_crc.to_le_bytes());
        bytes.extend_from_slice(data);
        bytes
    }
}

/// A directory entry (`struct jffs2_raw_dirent`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirentNode {
    /// Inode of the directory.
    pub parent: u32,
    /// Version within the directory: of one name the highest counts.
    pub version: u32,
    /// What the name stands for; zero if the name was removed.
    pub inode: u32,
    /// Time of the change, seconds.
    pub changed: u32,
    /// Kind of the inode that the name leads to (`DT_*`).
    pub kind: u8,
    /// Name, all of it: a kernel takes one with a zero byte to end there, but no call makes such a
    /// name, and a listing must show it.
    pub name: Vec<u8>,
}

impl DirentNode {
    /// Parses a node that begins with a header; none if the bytes are too few or a CRC is wrong.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < DIRENT_BYTES || crc(&bytes[..32]) != u32_at(bytes, 32) {
            return None;
        }
        let name = bytes.get(DIRENT_BYTES..DIRENT_BYTES + usize::from(bytes[28]))?;
        if crc(name) != u32_at(bytes, 36) {
            return None;
        }
        Some(Self {
            parent: u32_at(bytes, 12),
            version: u32_at(bytes, 16),
            inode: u32_at(bytes, 20),
            changed: u32_at(bytes, 24),
            kind: bytes[29],
            name: name.to_vec(),
        })
    }

    /// The whole node with its name; CRCs and lengths are filled in.
    pub fn to_bytes(&self) -> Vec<u8> {
        let total = DIRENT_BYTES + self.name.len();
        let mut bytes = Vec::with_capacity(total + 3);
        bytes.extend_from_slice(&Header::new(DIRENT, total as u32).to_bytes());
        for word in [self.parent, self.version, self.inode, self.changed] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&[self.name.len() as u8, self.kind, 0, 0]);
        let node_crc = crc(&bytes[..32]);
        bytes.extend_from_slice(&node_crc.to_le_bytes());
        bytes.extend_from_slice(&crc(&self.name).to_le_bytes());
        bytes.extend_from_slice(&self.name);
        bytes
    }
}

/// Name and value of an extended attribute (`struct jffs2_raw_xattr`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XattrNode {
    /// Number of the attribute.
    pub id: u32,
    /// Version of the attribute: of one number the highest counts.
    pub version: u32,
    /// Prefix of the name: 1 `user.`, 2 `security.`, 3 and 4 ACLs, 5 `trusted.`.
    pub prefix: u8,
    /// Name behind its prefix.
    pub name: Vec<u8>,
    /// Value of the attribute.
    pub value: Vec<u8>,
}

impl XattrNode {
    /// Number and version, if the node's own CRC holds: all that a scan looks at.
    pub fn parse_head(bytes: &[u8]) -> Option<(u32, u32)> {
        let is_valid = bytes.len() >= XATTR_BYTES && crc(&bytes[..28]) == u32_at(bytes, 28);
        is_valid.then(|| (u32_at(bytes, 12), u32_at(bytes, 16)))
    }

    /// Parses a whole node; none if the bytes are too few or a CRC is wrong.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (id, version) = Self::parse_head(bytes)?;
        let (name_bytes, value_bytes) = (usize::from(bytes[21]), usize::from(u16_at(bytes, 22)));
        let data = bytes.get(XATTR_BYTES..XATTR_BYTES + name_bytes + 1 + value_bytes)?;
        (crc(data) == u32_at(bytes, 24)).then(|| Self {
            id,
            version,
            prefix: bytes[20],
            name: data[..name_bytes].to_vec(),
            value: data[name_bytes + 1..].to_vec(),
        })
    }

    /// The whole node, padded.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut data = self.name.clone();
        data.push(0);
        data.extend_from_slice(&self.value);
        let total = padded((XATTR_BYTES + data.len()) as u32);
        let mut bytes = Vec::with_capacity(total as usize);
        bytes.extend_from_slice(&Header::new(XATTR, total).to_bytes());
        bytes.extend_from_slice(&self.id.to_le_bytes());
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(&[self.prefix, self.name.len() as u8]);
        bytes.extend_from_slice(&(self.value.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&crc(&data).to_le_bytes());
        let node_crc = crc(&bytes);
        bytes.extend_from_slice(&node_crc.to_le_bytes());
        bytes.extend_from_slice(&data);
        bytes.resize(total as usize, 0xff);
        bytes
    }
}

/// A reference from an inode to an extended attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XrefNode {
    /// Inode that has the attribute.
    pub inode: u32,
    /// Number of the attribute.
    pub id: u32,
    /// Sequence number: the highest counts; odd if the reference was removed.
    pub sequence: u32,
}

impl XrefNode {
    /// Parses a node that begins with a header; none if the bytes are too few or the CRC is wrong.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let is_valid = bytes.len() >= XREF_BYTES && crc(&bytes[..24]) == u32_at(bytes, 24);
        is_valid.then(|| Self {
            inode: u32_at(bytes, 12),
            id: u32_at(bytes, 16),
            sequence: u32_at(bytes, 20),
        })
    }

    /// The whole node; the CRC is filled in.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Header::new(XREF, XREF_BYTES as u32).to_bytes().to_vec();
        for word in [self.inode, self.id, self.sequence] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let node_crc = crc(&bytes);
        bytes.extend_from_slice(&node_crc.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::{CLEANMARKER, DirentNode, Header, InodeNode, XattrNode, XrefNode, crc};

    #[test]
    fn the_crc_is_the_kernels() {
        assert_eq!(crc(b"123456789"), 0x2dfd_2d88);
        assert_eq!(crc(b"a"), 0x3ab5_51ce);
        let marker = Header::new(CLEANMARKER, 12).to_bytes();
        assert_eq!(marker, [0x85, 0x19, 3, 0x20, 12, 0, 0, 0, 0xb1, 0xb0, 0x1e, 0xe4]);
        assert!(Header::parse(&marker).is_valid());
    }

    #[test]
    fn nodes_come_back() {
        let inode = InodeNode {
            inode: 7,
            version: 9,
            mode: 0o100_644,
            data_bytes: 3,
            ..InodeNode::default()
        };
        let bytes = inode.to_bytes(b"abc");
        let back = InodeNode::parse(&bytes).expect("valid");
        assert_eq!((back.inode, back.stored_bytes, back.data_crc), (7, 3, crc(b"abc")));
        let entry = DirentNode {
            parent: 1,
            version: 2,
            inode: 3,
            changed: 4,
            kind: 8,
            name: b"n".to_vec(),
        };
        assert_eq!(DirentNode::parse(&entry.to_bytes()), Some(entry));
        let attribute =
            XattrNode { id: 1, version: 2, prefix: 5, name: b"x".to_vec(), value: vec![0, 1] };
        assert_eq!(XattrNode::parse(&attribute.to_bytes()), Some(attribute));
        let reference = XrefNode { inode: 1, id: 2, sequence: 3 };
        let mut bytes = reference.to_bytes();
        assert_eq!(XrefNode::parse(&bytes), Some(reference));
        bytes[12] ^= 1;
        assert_eq!(XrefNode::parse(&bytes), None);
    }
}
