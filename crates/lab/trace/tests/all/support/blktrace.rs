//! Writes entries of the binary blktrace format, field by field.

/// One entry; the fields are those of the header.
#[derive(Clone)]
pub struct Entry {
    pub time_ns: u64,
    pub sector: u64,
    pub length_bytes: u32,
    /// Event number in the low half, category bits in the high half.
    pub action: u32,
    pub device: u32,
    pub payload: Vec<u8>,
}

pub const QUEUE: u32 = 1;
pub const REQUEUE: u32 = 6;
pub const ISSUE: u32 = 7;
pub const COMPLETE: u32 = 8;

pub const READ: u32 = 1 << 16;
pub const WRITE: u32 = 1 << 17;
pub const FLUSH: u32 = 1 << 18;
pub const SYNC: u32 = 1 << 19;
pub const PASSTHROUGH: u32 = 1 << 25;
pub const META: u32 = 1 << 28;
pub const READAHEAD: u32 = 1 << 27;
pub const DISCARD: u32 = 1 << 29;
pub const FUA: u32 = 1 << 31;
const NOTIFY: u32 = 1 << 26;
const CGROUP: u32 = 1 << 8;

/// Version 7 of the format.
pub const MAGIC: u32 = 0x6561_7407;

impl Entry {
    pub fn request(time_ns: u64, action: u32, sector: u64, length_bytes: u32) -> Self {
        Self { time_ns, sector, length_bytes, action, device: 8 << 20, payload: Vec::new() }
    }

    pub fn message(time_ns: u64, text: &str) -> Self {
        Self { payload: text.as_bytes().to_vec(), ..Self::request(time_ns, NOTIFY | 2, 0, 0) }
    }

    /// A message as the kernel logs it for a task in a cgroup.
    pub fn message_of_cgroup(time_ns: u64, text: &str) -> Self {
        let mut payload = 77_u64.to_le_bytes().to_vec();
        payload.extend_from_slice(text.as_bytes());
        Self { payload, ..Self::request(time_ns, NOTIFY | CGROUP | 2, 0, 0) }
    }

    fn fields(&self) -> [(u64, usize); 11] {
        [
            (u64::from(MAGIC), 4),
            (1, 4),
            (self.time_ns, 8),
            (self.sector, 8),
            (u64::from(self.length_bytes), 4),
            (u64::from(self.action), 4),
            (1234, 4),
            (u64::from(self.device), 4),
            (0, 4),
            (0, 2),
            (self.payload.len() as u64, 2),
        ]
    }

    pub fn little_endian(&self) -> Vec<u8> {
        let fields = self.fields();
        let header =
            fields.iter().flat_map(|(value, width)| value.to_le_bytes()[..*width].to_vec());
        header.chain(self.payload.clone()).collect()
    }

    pub fn big_endian(&self) -> Vec<u8> {
        let fields = self.fields();
        let header =
            fields.iter().flat_map(|(value, width)| value.to_be_bytes()[8 - width..].to_vec());
        header.chain(self.payload.clone()).collect()
    }
}

/// A file of these entries, little-endian.
pub fn file_of(entries: &[Entry]) -> Vec<u8> {
    entries.iter().flat_map(Entry::little_endian).collect()
}
