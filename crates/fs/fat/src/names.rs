//! Names: slots of a directory, short names, long names.
//!
//! Source: `fs/fat/namei_vfat.c` and `fs/fat/dir.c`, Linux 6.12. Short names are ASCII here: the kernel
//! makes and shows other letters by code page 437.
//!
//! May use: `boot`, `times`.

use crate::boot::FatType;
use crate::times;
use fs_api::{Errno, Time};

/// Bytes of a slot.
pub(crate) const SLOT_BYTES: usize = 32;
/// A slot that is free: the name was removed.
const DELETED: u8 = 0xe5;
/// Attribute bits of a slot that holds a part of a long name.
const LONG_ATTRIBUTES: u8 = 0x0f;
/// Bit of the number of the slot that a long name begins with (it stands last).
const LONG_FIRST: u8 = 0x40;
/// UTF-16 units of a slot of a long name.
const UNITS: usize = 13;
/// Where the units stand in a slot.
const UNIT_OFFSETS: [usize; UNITS] = [1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30];
/// Most slots of a long name.
const LONG_SLOTS_MAX: usize = 20;
/// The base of a short name is shown in lower case, its extension is.
const LOWER_BASE: u8 = 0x08;
const LOWER_EXTENSION: u8 = 0x10;

/// Not to be written.
pub(crate) const ATTRIBUTE_READ_ONLY: u8 = 0x01;
/// The label of the volume.
const ATTRIBUTE_VOLUME: u8 = 0x08;
/// The entry is that of a directory.
pub(crate) const ATTRIBUTE_DIRECTORY: u8 = 0x10;
/// Changed since it was archived.
pub(crate) const ATTRIBUTE_ARCHIVE: u8 = 0x20;

pub(crate) type ShortName = [u8; 11];
pub(crate) type Slot = [u8; SLOT_BYTES];

/// The name of a directory's own slot.
pub(crate) const DOT: ShortName = *b".          ";
/// The name of the slot of a directory's parent.
pub(crate) const DOT_DOT: ShortName = *b"..         ";

/// What the slot of a short name holds of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) name: ShortName,
    pub(crate) attributes: u8,
    pub(crate) case: u8,
    pub(crate) created: Time,
    pub(crate) accessed: Time,
    pub(crate) modified: Time,
    pub(crate) start: u32,
    pub(crate) size_bytes: u32,
}

fn u16_at(slot: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([slot[at], slot[at + 1]])
}

impl Record {
    /// True of the entry of a directory.
    pub(crate) fn is_directory(&self) -> bool {
        self.attributes & ATTRIBUTE_DIRECTORY != 0
    }

    /// An empty file made at a time.
    pub(crate) fn at(now: Time) -> Self {
        let now = times::truncated(now);
        Self {
            name: [b' '; 11],
            attributes: 0,
            case: 0,
            created: now,
            accessed: times::truncated_to_day(now),
            modified: now,
            start: 0,
            size_bytes: 0,
        }
    }

    pub(crate) fn decode(slot: &[u8], kind: FatType) -> Self {
        let high = if kind == FatType::Fat32 { u32::from(u16_at(slot, 20)) } else { 0 };
        Self {
            name: slot[..11].try_into().expect("eleven bytes"),
            attributes: slot[11],
            case: slot[12],
            created: times::decode(u16_at(slot, 16), u16_at(slot, 14)),
            accessed: times::decode(u16_at(slot, 18), 0),
            modified: times::decode(u16_at(slot, 24), u16_at(slot, 22)),
            start: high << 16 | u32::from(u16_at(slot, 26)),
            size_bytes: u32::from_le_bytes(slot[28..32].try_into().expect("four bytes")),
        }
    }

    /// Writes the record; tenths of seconds of the creation are not kept.
    pub(crate) fn encode(&self) -> Slot {
        let mut slot = [0; SLOT_BYTES];
        slot[..11].copy_from_slice(&self.name);
        (slot[11], slot[12]) = (self.attributes, self.case);
        let mut put =
            |at: usize, value: u16| slot[at..at + 2].copy_from_slice(&value.to_le_bytes());
        let (created, modified) = (times::encode(self.created), times::encode(self.modified));
        put(14, created.1);
        put(16, created.0);
        put(18, times::encode(self.accessed).0);
        // Written for FAT12 and FAT16 as well, where clusters have 16 bits and it is zero.
        put(20, (self.start >> 16) as u16);
        put(22, modified.1);
        put(24, modified.0);
        put(26, self.start as u16);
        slot[28..].copy_from_slice(&self.size_bytes.to_le_bytes());
        slot
    }

    /// The first cluster alone (`fat_set_start`).
    pub(crate) fn set_start(slot: &mut [u8], start: u32) {
        slot[26..28].copy_from_slice(&(start as u16).to_le_bytes());
        slot[20..22].copy_from_slice(&((start >> 16) as u16).to_le_bytes());
    }
}

/// A name of a directory: its slots and what stands in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// First slot, and the one of the short name.
    pub(crate) slots: (u32, u32),
    pub(crate) record: Record,
    /// The long name, if there is a sound one.
    pub(crate) long: Option<Vec<u8>>,
}

impl Entry {
    /// The name as it is shown.
    pub(crate) fn name(&self, shows_lower_case: bool) -> Vec<u8> {
        self.long.clone().unwrap_or_else(|| self.short(shows_lower_case))
    }

    fn short(&self, shows_lower_case: bool) -> Vec<u8> {
        let case = if shows_lower_case { LOWER_BASE | LOWER_EXTENSION } else { self.record.case };
        let part = |bytes: &[u8], is_lower: bool| {
            let end = bytes.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
            let lower = |byte: &u8| if is_lower { byte.to_ascii_lowercase() } else { *byte };
            bytes[..end].iter().map(lower).collect::<Vec<u8>>()
        };
        let mut raw = self.record.name;
        // A first letter 0xE5 would look like a free slot, so it is stored as 5.
        if raw[0] == 0x05 {
            raw[0] = DELETED;
        }
        let mut name = part(&raw[..8], case & LOWER_BASE != 0);
        let extension = part(&raw[8..], case & LOWER_EXTENSION != 0);
        if !extension.is_empty() {
            name.push(b'.');
            name.extend(extension);
        }
        // Without a code page: as Latin-1.
        name.iter().map(|byte| char::from(*byte)).collect::<String>().into_bytes()
    }

    /// True if a name means this entry (`fat_search_long`): the long name or the short one, letters of
    /// ASCII in either case.
    pub(crate) fn is_meant_by(&self, name: &[u8]) -> bool {
        let name = without_trailing_dots(name);
        // Each file has two names, and both find it. A new one must differ from both of every
        // other.
        self.short(false).eq_ignore_ascii_case(name)
            || self.long.as_ref().is_some_and(|long| long.eq_ignore_ascii_case(name))
    }
}

/// Collects the slots of a directory to names.
#[derive(Default)]
pub(crate) struct Parser {
    units: Vec<u16>,
    /// Slots of the long name that are still to come, its checksum and its first slot.
    pending: Option<(u8, u8, u32)>,
}

/// What a slot is.
pub(crate) enum Seen {
    /// Nothing: it may be used.
    Free,
    /// A part of a name, or a label.
    Part,
    /// The last slot of a name.
    Entry(Entry),
}

impl Parser {
    /// Takes the next slot.
    pub(crate) fn push(&mut self, number: u32, slot: &[u8], kind: FatType) -> Seen {
        if slot[0] == 0 || slot[0] == DELETED {
            self.pending = None;
            return Seen::Free;
        }
        if slot[11] == LONG_ATTRIBUTES {
            self.push_long(number, slot);
            return Seen::Part;
        }
        if slot[11] & ATTRIBUTE_VOLUME != 0 {
            // A label shares a bit with long names; parts before it belong to nothing.
            self.pending = None;
            return Seen::Part;
        }
        let record = Record::decode(slot, kind);
        let (first, long) = match self.pending.take() {
            // Systems that know no long names move and rename the short slot alone. The sum shows
            // that the parts before it are another file's.
            Some((0, checksum, first)) if checksum == checksum_of(&record.name) => {
                let end = self.units.iter().position(|unit| *unit == 0);
                let units = &self.units[..end.unwrap_or(self.units.len())];
                (first, String::from_utf16(units).ok().map(String::into_bytes))
            }
            _ => (number, None),
        };
        // A name with a slash, or an empty one, cannot be shown.
        let long = long.filter(|name| !name.is_empty() && !name.contains(&b'/'));
        Seen::Entry(Entry { slots: (first, number), record, long })
    }

    fn push_long(&mut self, number: u32, slot: &[u8]) {
        let (id, checksum) = (slot[0], slot[13]);
        if id & LONG_FIRST != 0 {
            let count = id & !LONG_FIRST;
            let is_sound = count != 0 && usize::from(count) <= LONG_SLOTS_MAX;
            self.pending = is_sound.then_some((count, checksum, number));
            self.units = vec![0; usize::from(count) * UNITS];
        }
        self.pending = match self.pending {
            Some((left, sum, first)) if left == id & !LONG_FIRST && left > 0 && sum == checksum => {
                for (index, at) in UNIT_OFFSETS.into_iter().enumerate() {
                    self.units[usize::from(left - 1) * UNITS + index] = u16_at(slot, at);
                }
                Some((left - 1, sum, first))
            }
            _ => None,
        };
    }
}

/// A slot that is free again.
pub(crate) fn free_slot(slot: &mut [u8]) {
    slot[0] = DELETED;
}

/// The sum of a short name that the slots of its long one hold (`fat_checksum`).
fn checksum_of(name: &ShortName) -> u8 {
    name.iter().fold(0_u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte))
}

/// A name without the dots at its end, which mean nothing (`vfat_striptail_len`).
pub(crate) fn without_trailing_dots(name: &[u8]) -> &[u8] {
    let end = name.iter().rposition(|byte| *byte != b'.').map_or(0, |last| last + 1);
    &name[..end]
}

/// The units of a new name.
///
/// # Errors
/// [`Errno::Einval`] for names that are no UTF-8 or have letters that no name may have,
/// [`Errno::Enametoolong`].
pub(crate) fn units_of(name: &[u8]) -> Result<Vec<u16>, Errno> {
    let name = without_trailing_dots(name);
    let text = std::str::from_utf8(name).map_err(|_| Errno::Einval)?;
    let is_bad = |letter: char| letter < ' ' || "*?<>|\":/\\".contains(letter);
    // `vfat_valid_longname`: the spaces of a name that ends with one would be lost elsewhere.
    // Nothing but dots: `vfat_add_entry` answers as if the name did not exist.
    if text.is_empty() {
        return Err(Errno::Enoent);
    }
    if text.ends_with(' ') || text.contains(is_bad) {
        return Err(Errno::Einval);
    }
    let units: Vec<u16> = text.encode_utf16().collect();
    // Counted in units of UTF-16, not in bytes.
    if units.len() > 255 { Err(Errno::Enametoolong) } else { Ok(units) }
}

/// A short name on the way, and the case of its letters so far.
struct Part {
    bytes: Vec<u8>,
    is_valid: bool,
    is_upper: bool,
    is_whole: bool,
}

/// Letters of a long name as a part of a short one may have them (`to_shortname_char`).
fn short_part(units: &[u16], most: usize) -> Part {
    let mut part = Part { bytes: Vec::new(), is_valid: true, is_upper: true, is_whole: true };
    for unit in units {
        let letter = u8::try_from(*unit).unwrap_or(0xff);
        let is_skipped = matches!(letter, b'.' | b' ');
        let is_plain = letter < 0x80 && !b"[];,+=".contains(&letter);
        // Letters that a short name cannot have become an underscore, dots and spaces go; either
        // means that a long name is needed.
        part.is_valid &= !is_skipped && is_plain;
        if is_skipped {
            continue;
        }
        if part.bytes.len() == most {
            part.is_whole = false;
            break;
        }
        part.is_upper &= !letter.is_ascii_lowercase();
        part.bytes.push(if is_plain { letter.to_ascii_uppercase() } else { b'_' });
    }
    part
}

/// A short name for a new name, and whether the short one says all (`vfat_create_shortname`).
///
/// `is_used` is true of short names that are taken, `tick` makes a number where the first nine are.
///
/// # Errors
/// [`Errno::Eexist`] if the name is a short one that is taken, [`Errno::Einval`] if nothing is left of it.
pub(crate) fn short_name(
    units: &[u16],
    is_used: impl Fn(&ShortName) -> bool,
    tick: u32,
) -> Result<(ShortName, bool), Errno> {
    const DOT_UNIT: u16 = b'.' as u16;
    let is_skipped = |unit: &u16| *unit == DOT_UNIT || *unit == u16::from(b' ');
    let dot = units.iter().rposition(|unit| *unit == DOT_UNIT).filter(|dot| {
        // A name that begins with a dot has no extension, nor has one that ends with one.
        dot + 1 < units.len() && !units[..*dot].iter().all(is_skipped)
    });
    let base = short_part(&units[..dot.unwrap_or(units.len())], 8);
    let extension = short_part(dot.map_or(&[][..], |dot| &units[dot + 1..]), 3);
    if base.bytes.is_empty() {
        return Err(Errno::Einval);
    }
    let mut name = [b' '; 11];
    name[..base.bytes.len()].copy_from_slice(&base.bytes);
    name[8..8 + extension.bytes.len()].copy_from_slice(&extension.bytes);
    let is_short = base.is_whole && extension.is_whole && base.is_valid && extension.is_valid;
    if is_short {
        if is_used(&name) {
            return Err(Errno::Eexist);
        }
        // `VFAT_SFN_CREATE_WIN95`: lower case needs a long name; the bits of Windows NT for it are
        // read, never written.
        return Ok((name, base.is_upper && extension.is_upper));
    }
    let length = base.bytes.len();
    let mut numbered = name;
    let at = length.min(6);
    numbered[at..8].fill(b' ');
    numbered[at] = b'~';
    // Nine are tried one by one. After that the clock makes a number, or a directory with many
    // similar names would be searched for each.
    for digit in b'1'..=b'9' {
        numbered[at + 1] = digit;
        if !is_used(&numbered) {
            return Ok((numbered, false));
        }
    }
    let at = length.min(2);
    let mut number = tick;
    numbered = name;
    numbered[at..8].fill(b' ');
    numbered[at + 4] = b'~';
    numbered[at + 5] = b'1' + (tick >> 16 & 7) as u8;
    loop {
        numbered[at..at + 4].copy_from_slice(format!("{:04X}", number & 0xffff).as_bytes());
        if !is_used(&numbered) {
            return Ok((numbered, false));
        }
        number = number.wrapping_sub(11);
    }
}

/// The slots of a new name: those of the long one, then the short one.
pub(crate) fn slots_of(units: &[u16], is_short: bool, record: &Record) -> Vec<Slot> {
    let mut slots = Vec::new();
    let count = if is_short { 0 } else { units.len().div_ceil(UNITS) };
    for index in (0..count).rev() {
        let mut slot = [0; SLOT_BYTES];
        slot[0] = (index + 1) as u8 | if index + 1 == count { LONG_FIRST } else { 0 };
        (slot[11], slot[13]) = (LONG_ATTRIBUTES, checksum_of(&record.name));
        for (unit, at) in UNIT_OFFSETS.into_iter().enumerate() {
            let place = index * UNITS + unit;
            // One zero ends a name that does not fill its last slot, all bits set follow it.
            let padding = if place == units.len() { 0 } else { 0xffff };
            let value = units.get(place).copied().unwrap_or(padding);
            slot[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        slots.push(slot);
    }
    slots.push(record.encode());
    slots
}

#[cfg(test)]
mod tests {
    use super::{
        Errno, FatType, LONG_ATTRIBUTES, LONG_FIRST, LONG_SLOTS_MAX, Parser, SLOT_BYTES, Seen,
        checksum_of, short_name, units_of,
    };

    fn short(name: &str, used: &[&str]) -> (String, bool) {
        let units = units_of(name.as_bytes()).expect("a name");
        let is_used = |name: &[u8; 11]| used.iter().any(|used| used.as_bytes() == name);
        let (name, is_short) = short_name(&units, is_used, 0x1_2345).expect("a short name");
        (String::from_utf8_lossy(&name).into_owned(), is_short)
    }

    #[test]
    fn short_names_are_the_kernels() {
        for (name, expected, is_short) in [
            ("README", "README     ", true),
            ("README.TXT", "README  TXT", true),
            ("readme.txt", "README  TXT", false),
            ("a long name.text", "ALONGN~1TEX", false),
            ("abcdefghi", "ABCDEF~1   ", false),
            ("abcdefgh", "ABCDEFGH   ", false),
            ("a b", "AB~1       ", false),
            ("...test", "TEST~1     ", false),
            ("x.y.z", "XY~1    Z  ", false),
            ("ä", "_~1        ", false),
            ("x[1]", "X_1_~1     ", false),
        ] {
            assert_eq!(short(name, &[]), (expected.into(), is_short), "{name}");
        }
        let nine: Vec<String> = (1..10).map(|digit| format!("ALONGN~{digit}   ")).collect();
        let used: Vec<&str> = nine.iter().map(String::as_str).collect();
        assert_eq!(short("a long name", &used[..1]).0, "ALONGN~2   ");
        assert_eq!(short("a long name", &used).0, "AL2345~2   ");
    }

    #[test]
    fn names_that_cannot_be() {
        for name in ["a:b", "a*", "tab\t", "end "] {
            assert_eq!(units_of(name.as_bytes()), Err(Errno::Einval), "{name}");
        }
        assert_eq!(units_of(&[0xff]), Err(Errno::Einval));
        assert_eq!(units_of(&[b'a'; 256]), Err(Errno::Enametoolong));
        assert_eq!(units_of(&[b'a'; 255]).map(|units| units.len()), Ok(255));
    }

    /// The name that a parser finds in `parts` slots of a long name of "aaa…" and the short one's slot.
    fn long_of(parts: usize) -> Option<Vec<u8>> {
        let short = *b"AAAAAA~1   ";
        let mut parser = Parser::default();
        for left in (1..=parts).rev() {
            let mut slot = [0; SLOT_BYTES];
            for at in super::UNIT_OFFSETS {
                slot[at] = b'a';
            }
            slot[0] = left as u8 | if left == parts { LONG_FIRST } else { 0 };
            slot[11] = LONG_ATTRIBUTES;
            slot[13] = checksum_of(&short);
            let seen = parser.push((parts - left) as u32, &slot, FatType::Fat16);
            assert!(matches!(seen, Seen::Part));
        }
        let mut slot = [0; SLOT_BYTES];
        slot[..11].copy_from_slice(&short);
        match parser.push(parts as u32, &slot, FatType::Fat16) {
            Seen::Entry(entry) => entry.long,
            _ => panic!("the slot of the short name is an entry"),
        }
    }

    #[test]
    fn a_long_name_of_too_many_slots_is_none() {
        let longest = long_of(LONG_SLOTS_MAX).map(|name| name.len());
        assert_eq!(longest, Some(LONG_SLOTS_MAX * super::UNITS));
        // `fat_parse_long` gives up beyond 20 slots; the short name stands then.
        assert_eq!(long_of(LONG_SLOTS_MAX + 1), None);
    }
}
