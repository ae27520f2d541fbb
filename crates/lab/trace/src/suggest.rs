//! "Did you mean": the known word nearest to a mistyped one.

/// Longer words are compared by their first characters only: names are not that long.
const LONGEST_COMPARED: usize = 64;

/// Least number of one-character insertions, deletions and replacements that turn `from` into `to`.
pub fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().take(LONGEST_COMPARED).collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, letter) in from.chars().take(LONGEST_COMPARED).enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

/// The candidate nearest to `word`, if it is near enough to be what was meant.
///
/// At most a third of the letters may differ; the first of several equally near ones wins.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.chars().take(LONGEST_COMPARED).flat_map(char::to_lowercase).collect();
    let allowed = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_of_known_pairs() {
        let cases = [
            ("", "", 0),
            ("", "ab", 2),
            ("kitten", "sitting", 3),
            ("mrs", "msr", 2),
            ("é", "e", 1),
        ];
        for (from, to, distance) in cases {
            assert_eq!(edit_distance(from, to), distance, "{from} {to}");
            assert_eq!(edit_distance(to, from), distance, "{to} {from}");
        }
    }

    #[test]
    fn nearest_is_case_blind_and_has_a_limit() {
        let names = ["blkparse", "blktrace", "msr", "spc"];
        assert_eq!(nearest("blktrac", names), Some("blktrace"));
        assert_eq!(nearest("MSR", names), Some("msr"));
        assert_eq!(nearest("zebra", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest(&"x".repeat(100_000), names), None);
    }
}
