//! Bytes of a file that stem from several of its versions.

use crate::tree::Row;

/// True if each byte is that of a version; what lies behind a version's end counts as zero.
pub(crate) fn is_mixture(versions: &[&Row], found: &Row) -> bool {
    // Any size between the shortest and the longest, since bytes and size are written apart.
    let sizes = versions.iter().map(|row| row.content.len());
    let (least, most) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
    let byte = |row: &Row, at: usize| row.content.get(at).copied().unwrap_or(0);
    (least..=most).contains(&found.content.len())
        && found
            .content
            .iter()
            .enumerate()
            .all(|(at, found)| versions.iter().any(|row| byte(row, at) == *found))
}
