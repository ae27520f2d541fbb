//! Snapshots on the medium: a header of 16 bytes, the tree behind it, both in one row of good blocks.

use mtd::Mtd;

/// What a header begins with: `toy1`.
pub const MAGIC: u32 = 0x746f_7931;
/// Magic number, sequence number, bytes of the payload, CRC-32 of both numbers and the payload.
const HEADER_BYTES: usize = 16;

/// What a half of the device holds.
pub enum Snapshot {
    /// It does not begin with a header: nothing was ever written there, or the block was erased.
    None,
    /// A header whose checksum is not that of what follows.
    Torn,
    /// Its sequence number and its payload.
    Whole(u32, Vec<u8>),
}

impl Snapshot {
    /// A snapshot at the beginning of the bytes of a half, bad blocks left out.
    pub fn parse(bytes: &[u8]) -> Self {
        let number = |at: usize| {
            bytes
                .get(at..at + 4)
                .map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
        };
        let (Some(MAGIC), Some(sequence), Some(length), Some(crc)) =
            (number(0), number(4), number(8), number(12))
        else {
            return Self::None;
        };
        match bytes.get(HEADER_BYTES..HEADER_BYTES + length as usize) {
            Some(payload) if crc_of(sequence, payload) == crc => {
                Self::Whole(sequence, payload.to_vec())
            }
            _ => Self::Torn,
        }
    }
}

fn crc_of(sequence: u32, payload: &[u8]) -> u32 {
    // The length is covered as well: a shorter payload that ends by chance with the right sum is refused.
    let mut crc = crc32fast::Hasher::new();
    crc.update(&sequence.to_le_bytes());
    crc.update(&(payload.len() as u32).to_le_bytes());
    crc.update(payload);
    crc.finalize()
}

/// Every second block: where they lie depends on nothing but their numbers, so that a dump of the first
/// blocks can be read.
fn half_blocks(mtd: &Mtd, half: u32) -> impl Iterator<Item = u32> {
    (half..mtd.geometry().blocks).step_by(2)
}

/// Bytes of a tree that fit into either half, with one block in sixteen left for bad ones.
pub(crate) fn payload_bytes_max(mtd: &Mtd) -> usize {
    let blocks = mtd.geometry().blocks / 2;
    // A block that goes bad shortens its half for ever; a full tree must still fit then.
    ((blocks - blocks.div_ceil(16)) * mtd.block_bytes()) as usize - HEADER_BYTES
}

/// Reads a half, as far as its header says.
pub(crate) async fn read(mtd: &Mtd, half: u32) -> Snapshot {
    let (block_bytes, mut bytes) = (mtd.block_bytes() as usize, Vec::new());
    let mut wanted = HEADER_BYTES;
    for block in half_blocks(mtd, half) {
        if bytes.len() >= wanted || mtd.is_bad(block).await != Ok(false) {
            continue;
        }
        let mut read = vec![0; block_bytes];
        // What cannot be read is seen by the checksum.
        let _ = mtd.read(u64::from(block) * block_bytes as u64, &mut read).await;
        // The first good block says how many are needed; reading all would make every mount slow.
        if bytes.is_empty() {
            if read[..4] != MAGIC.to_le_bytes() {
                return Snapshot::None;
            }
            wanted += u32::from_le_bytes([read[8], read[9], read[10], read[11]]) as usize;
        }
        bytes.extend_from_slice(&read);
    }
    Snapshot::parse(&bytes)
}

/// Writes a snapshot into the half of its number.
///
/// # Errors
/// The number of the block that failed and was marked bad; none if the good blocks of the half are too few.
pub(crate) async fn write(mtd: &Mtd, sequence: u32, payload: &[u8]) -> Result<(), Option<u32>> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    for number in [MAGIC, sequence, payload.len() as u32, crc_of(sequence, payload)] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(payload);
    // Pages are programmed whole; behind the payload they stay as an erase leaves them.
    bytes.resize(bytes.len().next_multiple_of(mtd.geometry().page_data_bytes as usize), 0xff);
    let mut chunks = bytes.chunks(mtd.block_bytes() as usize);
    let mut next = chunks.next();
    for block in half_blocks(mtd, sequence % 2) {
        let Some(chunk) = next else { break };
        if mtd.is_bad(block).await != Ok(false) {
            continue;
        }
        // Erased here and not after the last sync: until now the half held the snapshot before the newest,
        // which a mount needs if the newest is torn.
        let mut done = mtd.erase(block).await;
        if done.is_ok() {
            done = mtd.write(u64::from(block) * u64::from(mtd.block_bytes()), chunk).await;
        }
        if done.is_err() {
            // A mark that fails, too, leaves the block out of what can be read: its checksum fails.
            let _ = mtd.mark_bad(block).await;
            return Err(Some(block));
        }
        next = chunks.next();
    }
    if next.is_none() { Ok(()) } else { Err(None) }
}
