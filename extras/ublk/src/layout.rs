//! What the driver and its server exchange (include/uapi/linux/ublk_cmd.h of Linux 6.12), as bytes.

/// The error number of a device that does not answer.
pub const EIO: i32 = 5;

/// Bytes of a sector.
pub const SECTOR_BYTES: usize = 512;

/// Bytes of the descriptor of a request (`struct ublksrv_io_desc`).
pub const DESCRIPTOR_BYTES: usize = 24;

/// Longest request. The block layer splits longer ones.
pub const REQUEST_BYTES_MAX: u32 = 512 << 10;

/// Place of the bytes of requests on the character device (`UBLKSRV_IO_BUF_OFFSET`).
const BUFFERS_OFFSET: u64 = 0x8000_0000;

/// Bits of the place of a byte within its request (`UBLK_IO_BUF_BITS`).
const BUFFER_BITS: u32 = 25;

/// Commands are encoded as those of ioctl (`UBLK_F_CMD_IOCTL_ENCODE`).
const IOCTL_ENCODE: u64 = 1 << 6;

/// Bytes are copied with pread and pwrite (`UBLK_F_USER_COPY`), so no memory is shared for them.
const USER_COPY: u64 = 1 << 7;

/// Attributes: the disk has a write cache (`UBLK_ATTR_VOLATILE_CACHE`) and force unit access (`UBLK_ATTR_FUA`). Without
/// them the block layer sends no flush.
const CACHE_AND_FUA: u32 = 1 << 2 | 1 << 3;

/// What is asked of the driver on /dev/ublk-control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Makes a device.
    Add,
    /// Makes its block device appear. It returns once all tags are fetched and partitions were looked for.
    Start,
    /// Makes its block device disappear.
    Stop,
    /// Forgets a device.
    Delete,
    /// Describes the block device.
    SetParameters,
}

impl Control {
    /// Number of the command as ioctl has it: `_IOWR('u', number, struct ublksrv_ctrl_cmd)`.
    pub fn number(self) -> u32 {
        read_and_write(
            match self {
                Self::Add => 0x04,
                Self::Delete => 0x05,
                Self::Start => 0x06,
                Self::Stop => 0x07,
                Self::SetParameters => 0x08,
            },
            32,
        )
    }
}

/// Number of the command that fetches the first request of a tag (`UBLK_U_IO_FETCH_REQ`).
pub fn fetch() -> u32 {
    read_and_write(0x20, 16)
}

/// Number of the command that ends a request and fetches the next one (`UBLK_U_IO_COMMIT_AND_FETCH_REQ`).
pub fn commit_and_fetch() -> u32 {
    read_and_write(0x21, 16)
}

/// `_IOWR('u', number, bytes)`
fn read_and_write(number: u32, bytes: u32) -> u32 {
    3 << 30 | bytes << 16 | u32::from(b'u') << 8 | number
}

/// `struct ublksrv_ctrl_cmd`, padded to the room of a long submission entry.
pub fn control_command(device: u32, address: u64, length: u16, value: u64) -> [u8; 80] {
    let mut bytes = [0; 80];
    bytes[0..4].copy_from_slice(&device.to_le_bytes());
    // The command is not for a queue.
    bytes[4..6].copy_from_slice(&u16::MAX.to_le_bytes());
    bytes[6..8].copy_from_slice(&length.to_le_bytes());
    bytes[8..16].copy_from_slice(&address.to_le_bytes());
    bytes[16..24].copy_from_slice(&value.to_le_bytes());
    bytes
}

/// `struct ublksrv_io_cmd` of the first queue.
pub fn request_command(tag: u16, result: i32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[2..4].copy_from_slice(&tag.to_le_bytes());
    bytes[4..8].copy_from_slice(&result.to_le_bytes());
    bytes
}

/// `struct ublksrv_ctrl_dev_info` of a device with one queue, whose number the driver chooses.
pub fn device_info(depth: u16) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[0..2].copy_from_slice(&1_u16.to_le_bytes());
    bytes[2..4].copy_from_slice(&depth.to_le_bytes());
    bytes[8..12].copy_from_slice(&REQUEST_BYTES_MAX.to_le_bytes());
    bytes[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    bytes[24..32].copy_from_slice(&(IOCTL_ENCODE | USER_COPY).to_le_bytes());
    bytes
}

/// Number of the device in what the driver made of [`device_info`].
pub fn device_number(info: &[u8; 64]) -> u32 {
    u32::from_le_bytes([info[12], info[13], info[14], info[15]])
}

/// `struct ublk_params` with the basic part and that of discards.
pub fn parameters(sectors: u64, page_sectors: u32) -> [u8; 60] {
    const BASIC_AND_DISCARD: u32 = 1 | 1 << 1;
    let mut bytes = [0; 60];
    bytes[0..4].copy_from_slice(&60_u32.to_le_bytes());
    bytes[4..8].copy_from_slice(&BASIC_AND_DISCARD.to_le_bytes());
    bytes[8..12].copy_from_slice(&CACHE_AND_FUA.to_le_bytes());
    // Shifts of the logical and physical block, of the best and of the least request.
    bytes[12..16].copy_from_slice(&[9, 12, 12, 12]);
    let sectors_max = REQUEST_BYTES_MAX / SECTOR_BYTES as u32;
    bytes[16..20].copy_from_slice(&sectors_max.to_le_bytes());
    bytes[24..32].copy_from_slice(&sectors.to_le_bytes());
    // Discards: alignment, granularity, sectors of a discard, sectors of zeros, segments.
    bytes[44..48].copy_from_slice(&(page_sectors * SECTOR_BYTES as u32).to_le_bytes());
    bytes[48..52].copy_from_slice(&(u32::MAX >> 9).to_le_bytes());
    bytes[52..56].copy_from_slice(&sectors_max.to_le_bytes());
    bytes[56..58].copy_from_slice(&1_u16.to_le_bytes());
    bytes
}

/// Place of the first byte of a request on the character device.
pub fn buffer_offset(tag: u16) -> u64 {
    BUFFERS_OFFSET + (u64::from(tag) << BUFFER_BITS)
}

/// A request of the block layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is asked for (`UBLK_IO_OP_*`).
    pub operation: u8,
    /// What it writes is durable before it is answered (`UBLK_IO_F_FUA`).
    pub fua: bool,
    /// First sector.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u32,
}

/// `UBLK_IO_OP_READ`
pub const READ: u8 = 0;
/// `UBLK_IO_OP_WRITE`
pub const WRITE: u8 = 1;
/// `UBLK_IO_OP_FLUSH`
pub const FLUSH: u8 = 2;
/// `UBLK_IO_OP_DISCARD`
pub const DISCARD: u8 = 3;
/// `UBLK_IO_OP_WRITE_ZEROES`
pub const WRITE_ZEROES: u8 = 5;

impl Request {
    /// Reads `struct ublksrv_io_desc`.
    pub fn parse(bytes: &[u8; DESCRIPTOR_BYTES]) -> Self {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Self {
            operation: bytes[0],
            fua: word(0) & 1 << 13 != 0,
            sector: u64::from(word(8)) | u64::from(word(12)) << 32,
            sectors: word(4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Control, Request, commit_and_fetch, fetch, parameters};

    /// Numbers as the C macros give them.
    #[test]
    fn commands_are_numbered_as_those_of_ioctl() {
        assert_eq!(Control::Add.number(), 0xc020_7504);
        assert_eq!(Control::Start.number(), 0xc020_7506);
        assert_eq!((fetch(), commit_and_fetch()), (0xc010_7520, 0xc010_7521));
    }

    #[test]
    fn a_request_is_read_from_its_descriptor() {
        let mut bytes = [0; 24];
        bytes[0..4].copy_from_slice(&(1_u32 | 1 << 13).to_le_bytes());
        bytes[4..8].copy_from_slice(&8_u32.to_le_bytes());
        bytes[8..16].copy_from_slice(&0x1_0000_0002_u64.to_le_bytes());
        let expected = Request { operation: 1, fua: true, sector: 0x1_0000_0002, sectors: 8 };
        assert_eq!(Request::parse(&bytes), expected);
    }

    #[test]
    fn parameters_say_how_long_they_are() {
        let bytes = parameters(1 << 20, 32);
        assert_eq!(bytes[0..4], 60_u32.to_le_bytes());
        assert_eq!(bytes[24..32], (1_u64 << 20).to_le_bytes());
        assert_eq!(bytes[44..48], (32_u32 * 512).to_le_bytes());
    }
}
