//! The volume table: one record a volume, twice on the medium.
//!
//! Source: `drivers/mtd/ubi/ubi-media.h` and `vtbl.c`. Uses formats only.

use crate::headers::{VOLUMES_MAX, VolumeKind, be16, be32, crc32};

/// Bytes of a record.
pub const RECORD_BYTES: usize = 172;
/// Greatest length of a volume's name.
pub const NAME_BYTES_MAX: usize = 127;

const FLAG_AUTO_RESIZE: u8 = 1;
const FLAG_SKIP_CHECK: u8 = 2;

/// A volume as the table has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRecord {
    /// Physical blocks set aside.
    pub reserved_pebs: u32,
    /// Unit of the volume's block size.
    pub alignment: u32,
    /// Bytes at the end of each block that the alignment leaves unused.
    pub data_pad: u32,
    /// Whether it is dynamic or static.
    pub kind: VolumeKind,
    /// An update was begun and not ended.
    pub update_marker: bool,
    /// Name, without the padding of zeros.
    pub name: Vec<u8>,
    /// Takes all blocks that are left when first attached.
    pub is_auto_resized: bool,
    /// The CRCs of the static volume are not checked when it is opened.
    pub skips_check: bool,
}

/// Records that a table has room for.
pub fn slots(leb_bytes: u32) -> u32 {
    // The table is one logical block. Small blocks hold fewer records (`vtbl_slots`).
    (leb_bytes / RECORD_BYTES as u32).min(VOLUMES_MAX)
}

/// Bytes of the table as it is written: whole units of `min_io_bytes`.
pub fn table_bytes(leb_bytes: u32, min_io_bytes: u32) -> u32 {
    (slots(leb_bytes) * RECORD_BYTES as u32).next_multiple_of(min_io_bytes)
}

/// The bytes of a table, padded with zeros to `table_bytes`; the number of a volume is the place of
/// its record.
pub fn encode(records: &[Option<VolumeRecord>], table_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(table_bytes);
    // Empty records are zeros with a CRC (`empty_vtbl_record`), so that a damaged one is never
    // taken for a free one.
    for record in records {
        bytes.extend_from_slice(&encode_record(record.as_ref()));
    }
    bytes.resize(table_bytes.max(bytes.len()), 0);
    bytes
}

fn encode_record(record: Option<&VolumeRecord>) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    if let Some(record) = record {
        debug_assert!(record.name.len() <= NAME_BYTES_MAX, "the name was checked");
        bytes[0..4].copy_from_slice(&record.reserved_pebs.to_be_bytes());
        bytes[4..8].copy_from_slice(&record.alignment.to_be_bytes());
        bytes[8..12].copy_from_slice(&record.data_pad.to_be_bytes());
        bytes[12] = record.kind.code();
        bytes[13] = record.update_marker.into();
        bytes[14..16].copy_from_slice(&(record.name.len() as u16).to_be_bytes());
        bytes[16..16 + record.name.len()].copy_from_slice(&record.name);
        bytes[144] = (u8::from(record.is_auto_resized) * FLAG_AUTO_RESIZE)
            | (u8::from(record.skips_check) * FLAG_SKIP_CHECK);
    }
    // One CRC a record; a single bad record makes the whole copy bad all the same.
    let crc = crc32(&bytes[..168]);
    bytes[168..].copy_from_slice(&crc.to_be_bytes());
    bytes
}

/// The records in bytes (`vtbl_check`).
///
/// # Errors
/// A sentence that says what is wrong with which record.
pub fn decode(bytes: &[u8], leb_bytes: u32) -> Result<Vec<Option<VolumeRecord>>, String> {
    // Nearly all records are unused, and those are all the same.
    let unused = encode_record(None);
    let mut records = Vec::new();
    for (number, bytes) in bytes.chunks_exact(RECORD_BYTES).enumerate() {
        if number as u32 == slots(leb_bytes) {
            break;
        }
        if bytes == unused {
            records.push(None);
            continue;
        }
        let record = decode_record(bytes, leb_bytes)
            .map_err(|reason| format!("record {number} of the volume table: {reason}"))?;
        records.push(record);
    }
    let names: Vec<&Vec<u8>> = records.iter().flatten().map(|record| &record.name).collect();
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            return Err(format!("two volumes are named {:?}", String::from_utf8_lossy(name)));
        }
    }
    Ok(records)
}

fn decode_record(bytes: &[u8], leb_bytes: u32) -> Result<Option<VolumeRecord>, String> {
    if crc32(&bytes[..168]) != be32(bytes, 168) {
        return Err("the CRC is wrong".into());
    }
    let reserved_pebs = be32(bytes, 0);
    if reserved_pebs == 0 {
        let is_empty = bytes[..168].iter().all(|byte| *byte == 0);
        return if is_empty { Ok(None) } else { Err("an empty record is not all zeros".into()) };
    }
    let (alignment, data_pad) = (be32(bytes, 4), be32(bytes, 8));
    if alignment == 0 || alignment > leb_bytes || data_pad != leb_bytes % alignment {
        return Err(format!("alignment {alignment} does not go with a pad of {data_pad} bytes"));
    }
    let kind = VolumeKind::from_code(bytes[12])
        .ok_or_else(|| format!("kind {} is neither dynamic nor static", bytes[12]))?;
    if bytes[13] > 1 {
        return Err("the update marker is neither set nor clear".into());
    }
    let name_bytes = be16(bytes, 14) as usize;
    if name_bytes == 0 || name_bytes > NAME_BYTES_MAX || bytes[16 + name_bytes] != 0 {
        return Err("the name has no proper length".into());
    }
    let name = bytes[16..16 + name_bytes].to_vec();
    if name.contains(&0) {
        return Err("the name holds a zero byte".into());
    }
    let flags = bytes[144];
    Ok(Some(VolumeRecord {
        reserved_pebs,
        alignment,
        data_pad,
        kind,
        update_marker: bytes[13] == 1,
        name,
        is_auto_resized: flags & FLAG_AUTO_RESIZE != 0,
        skips_check: flags & FLAG_SKIP_CHECK != 0,
    }))
}

#[cfg(test)]
mod tests {
    use super::{VolumeRecord, decode, encode, table_bytes};
    use crate::headers::{VolumeKind, be32};

    const LEB_BYTES: u32 = 129_024;

    fn record(name: &str) -> VolumeRecord {
        VolumeRecord {
            reserved_pebs: 20,
            alignment: 1,
            data_pad: 0,
            kind: VolumeKind::Static,
            update_marker: true,
            name: name.into(),
            is_auto_resized: true,
            skips_check: false,
        }
    }

    #[test]
    fn a_table_comes_back() {
        let mut records = vec![None; 128];
        records[3] = Some(record("a"));
        records[127] = Some(record("b"));
        let bytes = encode(&records, table_bytes(LEB_BYTES, 2048) as usize);
        assert_eq!(bytes.len(), 11 * 2048);
        assert_eq!(be32(&bytes, 168), 0xf116_c36b, "the CRC of an unused record");
        assert_eq!(decode(&bytes, LEB_BYTES), Ok(records));
    }

    #[test]
    fn wrong_tables_are_errors() {
        let twice = [Some(record("a")), Some(record("a"))];
        let bytes = encode(&twice, 512);
        assert!(decode(&bytes[..344], LEB_BYTES).is_err_and(|reason| reason.contains("named")));
        let mut bytes = encode(&twice[..1], 512);
        bytes[2] ^= 1;
        assert!(decode(&bytes[..172], LEB_BYTES).is_err_and(|reason| reason.contains("CRC")));
        let odd = VolumeRecord { alignment: 1000, ..record("c") };
        assert!(decode(&encode(&[Some(odd)], 172), LEB_BYTES).is_err());
    }
}
