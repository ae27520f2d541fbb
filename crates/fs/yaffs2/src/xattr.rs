//! Extended attributes: records behind the object header, in the same page.
//!
//! A record is its length in four bytes (itself included), the name, a NUL, the value. A length that
//! is not positive, or reaches past the area, ends the list.
//!
//! Source: `yaffs_nameval.c`.
//!
//! May use no other file of the crate.

use fs_api::Errno;

const LENGTH_BYTES: usize = 4;

/// A record: where it stands, name, value.
struct Record<'a> {
    start: usize,
    end: usize,
    name: &'a [u8],
    value: &'a [u8],
}

fn records(area: &[u8]) -> impl Iterator<Item = Record<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let bytes = area.get(at..at + LENGTH_BYTES)?;
        let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        // The bounds of `nval_find`, with `>=`: a record that ends with the area is not seen. An
        // unwritten area reads as a negative length there, as one that is too great here.
        if length <= LENGTH_BYTES || length >= area.len() || at + length >= area.len() {
            return None;
        }
        let (start, end) = (at, at + length);
        at = end;
        let body = &area[start + LENGTH_BYTES..end];
        let split = body.iter().position(|byte| *byte == 0).unwrap_or(body.len());
        let value = body.get(split + 1..).unwrap_or(&[]);
        Some(Record { start, end, name: &body[..split], value })
    })
}

/// Names in the order in which they stand.
pub(crate) fn list(area: &[u8]) -> Vec<Vec<u8>> {
    records(area).map(|record| record.name.to_vec()).collect()
}

/// Value of a name.
pub(crate) fn get(area: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    records(area).find(|record| record.name == name).map(|record| record.value.to_vec())
}

/// Whether there are any.
pub(crate) fn has_any(area: &[u8]) -> bool {
    records(area).next().is_some()
}

/// Removes a name; the rest moves up and the end is filled with zeros.
///
/// # Errors
/// [`Errno::Enodata`] if there is no attribute of the name.
pub(crate) fn remove(area: &mut [u8], name: &[u8]) -> Result<(), Errno> {
    let found = records(area).find(|record| record.name == name);
    let (start, end) = found.map(|record| (record.start, record.end)).ok_or(Errno::Enodata)?;
    let length = area.len();
    area.copy_within(end.., start);
    area[length - (end - start)..].fill(0);
    Ok(())
}

/// Sets a name, in place of what it was set to.
///
/// # Errors
/// [`Errno::Enospc`] if the area is too small; the old value is kept then.
pub(crate) fn set(area: &mut [u8], name: &[u8], value: &[u8]) -> Result<(), Errno> {
    let old: Option<usize> =
        records(area).find(|record| record.name == name).map(|record| record.end - record.start);
    let used = records(area).last().map_or(0, |record| record.end);
    let length = LENGTH_BYTES + name.len() + 1 + value.len();
    // Asked before the old value goes, so that a failure leaves it in place. A record that filled
    // the area exactly would be written by `nval_set`, and never found again: it is refused here.
    if used - old.unwrap_or(0) + length >= area.len() {
        return Err(Errno::Enospc);
    }
    if old.is_some() {
        remove(area, name)?;
    }
    let start = records(area).last().map_or(0, |record| record.end);
    let place = &mut area[start..];
    place[..LENGTH_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
    let split = LENGTH_BYTES + name.len();
    place[LENGTH_BYTES..split].copy_from_slice(name);
    place[split] = 0;
    place[split + 1..length].copy_from_slice(value);
    // What follows would read as a record if the area was never written.
    if let Some(end) = place.get_mut(length..length + LENGTH_BYTES) {
        end.fill(0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{get, has_any, list, remove, set};
    use fs_api::Errno;

    #[test]
    fn values_come_and_go() {
        let mut area = vec![0xff; 100];
        assert!(!has_any(&area));
        set(&mut area, b"user.a", b"one").expect("fits");
        set(&mut area, b"user.b", b"").expect("fits");
        set(&mut area, b"user.a", b"three").expect("fits");
        assert_eq!(list(&area), [b"user.b".to_vec(), b"user.a".to_vec()]);
        assert_eq!(get(&area, b"user.a"), Some(b"three".to_vec()));
        assert_eq!(get(&area, b"user.b"), Some(Vec::new()));
        assert_eq!(set(&mut area, b"user.c", &[1; 80]), Err(Errno::Enospc));
        assert_eq!(remove(&mut area, b"user.c"), Err(Errno::Enodata));
        remove(&mut area, b"user.b").expect("there");
        remove(&mut area, b"user.a").expect("there");
        assert!(!has_any(&area));
    }
}
