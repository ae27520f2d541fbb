//! Bytes of a file that stem from several of its versions.

use crate::content::Content;
use crate::tree::Row;

/// True if each byte is that of a version; what lies behind a version's end counts as zero.
pub(crate) fn is_mixture(versions: &[&Row], found: &Row) -> bool {
    has_size_between(versions, found) && is_of_bytes(versions, &found.content)
}

/// As [`is_mixture`], but behind the shortest length that the file had, cut bytes can show again.
pub(crate) fn is_mixture_with_old_tail(versions: &[&Row], found: &Row) -> bool {
    let end = versions.iter().map(|row| row.content.len()).min().unwrap_or(0);
    has_size_between(versions, found) && is_of_bytes(versions, &found.content.cut_to(end))
}

/// As [`is_mixture`], but behind the end of a version, a byte may be that of an older one.
pub(crate) fn is_mixture_with_older(versions: &[&Row], older: &[&Row], found: &Row) -> bool {
    has_size_between(versions, found)
        && found.content.pages().enumerate().all(|(number, page)| {
            let byte = |row: &Row, at: usize| row.content.page(number).get(at).copied();
            let is_known = |at: usize, found: u8| {
                let is_cut_off = versions.iter().any(|row| byte(row, at).is_none());
                versions.iter().any(|row| byte(row, at).unwrap_or(0) == found)
                    || is_cut_off && older.iter().any(|row| byte(row, at) == Some(found))
            };
            versions.iter().any(|row| has_page(&row.content, number, page))
                || page.iter().enumerate().all(|(at, found)| is_known(at, *found))
        })
}

/// Any size between the shortest and the longest, since bytes and size are written apart.
fn has_size_between(versions: &[&Row], found: &Row) -> bool {
    let sizes = versions.iter().map(|row| row.content.len());
    let (least, most) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
    (least..=most).contains(&found.content.len())
}

/// True if each of these bytes is that of a version at its place.
// Versions are not copied: a file of megabytes that was written page by page has hundreds of them.
fn is_of_bytes(versions: &[&Row], found: &Content) -> bool {
    // Most of the pages of a file are as one of its versions has them. So whole pages are compared first, and single
    // bytes only where no version has the page.
    let mut nearest = versions.len().saturating_sub(1);
    found.pages().enumerate().all(|(number, page)| {
        let has = |row: &Row| has_page(&row.content, number, page);
        // Pages that follow each other stem from the same version more often than not.
        if versions.get(nearest).is_some_and(|row| has(row)) {
            return true;
        }
        if let Some(other) = versions.iter().rposition(|row| has(row)) {
            nearest = other;
            return true;
        }
        let byte = |row: &Row, at: usize| row.content.page(number).get(at).copied().unwrap_or(0);
        let mut bytes = page.iter().enumerate();
        bytes.all(|(at, found)| versions.iter().any(|row| byte(row, at) == *found))
    })
}

/// True if a version has this page, with zeros behind its end.
pub(crate) fn has_page(content: &Content, number: usize, page: &[u8]) -> bool {
    let known = content.page(number);
    let (there, behind) = page.split_at(known.len().min(page.len()));
    known.starts_with(there) && behind.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::{is_mixture, is_mixture_with_older};
    use crate::content::Content;
    use crate::tree::Row;
    use crate::tree::made_up::tree;
    use random::Stream;

    /// The same byte by byte: the definition.
    fn is_mixture_of_bytes(versions: &[&Row], found: &Row) -> bool {
        let sizes = versions.iter().map(|row| row.content.len());
        let (least, most) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
        let byte = |row: &Row, at: usize| row.content.byte(at).unwrap_or(0);
        (least..=most).contains(&found.content.len())
            && (0..found.content.len()).all(|at| {
                versions.iter().any(|row| byte(row, at) == found.content.byte(at).expect("within"))
            })
    }

    #[test]
    fn pages_and_bytes_say_the_same() {
        let mut stream = Stream::new(1, "mixtures");
        let empty = tree(&[("a", b"")]).rows[b"a".as_slice()].clone();
        let row = |content: Vec<u8>| Row { content: Content::new(&content), ..(*empty).clone() };
        let mut counts = [0, 0];
        for _ in 0..400 {
            // Few values and one odd byte now and then: some are mixtures, some are not.
            let mut drawn = |most: u32| -> Vec<u8> {
                let bytes = stream.below(most) as usize;
                let value = stream.below(3) as u8;
                let mut content = vec![value; bytes];
                for _ in 0..stream.below(4) {
                    let at = stream.below(bytes.max(1) as u32) as usize;
                    let other = stream.below(3) as u8;
                    content.iter_mut().skip(at).take(3000).for_each(|byte| *byte = other);
                }
                content
            };
            let versions: Vec<Row> = (0..4).map(|_| row(drawn(13_000))).collect();
            let versions: Vec<&Row> = versions.iter().collect();
            let found = row(drawn(13_000));
            let said = is_mixture(&versions, &found);
            assert_eq!(said, is_mixture_of_bytes(&versions, &found));
            counts[usize::from(said)] += 1;
        }
        assert!(counts.iter().all(|count| *count > 20), "both answers come: {counts:?}");
        assert!(is_mixture(&[], &row(Vec::new())) && !is_mixture(&[], &row(vec![0])));
    }

    #[test]
    fn older_bytes_stand_only_behind_the_end_of_a_version() {
        let tree = tree(&[
            ("older", b"aaaa"),
            ("safe", b"bb"),
            // A zero is no sign that nothing was written.
            ("new", b"bb\0c"),
            ("half", b"bbac"),
            ("lost", b"ab\0c"),
            ("alien", b"bbdc"),
            ("longer", b"bb\0ca"),
        ]);
        let row = |name: &str| &*tree.rows[name.as_bytes()];
        let (versions, older) = ([row("safe"), row("new")], [row("older")]);
        let is = |found| is_mixture_with_older(&versions, &older, row(found));
        assert!(is("new") && is("half"));
        assert!(!is("lost"), "the bytes are safe");
        assert!(!is("alien") && !is("longer"));
        assert!(!is_mixture(&versions, row("half")));
    }
}
