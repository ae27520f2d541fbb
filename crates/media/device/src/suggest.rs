//! "Did you mean": the known word nearest to a mistyped one.

/// Longer words are compared by their first characters only.
const LONGEST_COMPARED: usize = 64;

/// The candidate nearest to `word`, if at most a third of its letters differ; the first of equals.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // A third of the letters, one at least: more would suggest words that were not meant.
    let allowed = (word.chars().count().min(LONGEST_COMPARED) / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `; did you mean X?`, or nothing.
pub(crate) fn hint<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

/// Insertions, deletions and replacements that turn one word into the other (Levenshtein 1965).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().take(LONGEST_COMPARED).collect();
    let mut costs: Vec<usize> = (0..=to.len()).collect();
    for (row, letter) in from.chars().take(LONGEST_COMPARED).enumerate() {
        let mut above_left = std::mem::replace(&mut costs[0], row + 1);
        for (column, other) in to.iter().enumerate() {
            let above = costs[column + 1];
            let replaced = above_left + usize::from(letter != *other);
            costs[column + 1] = replaced.min(above + 1).min(costs[column] + 1);
            above_left = above;
        }
    }
    costs[to.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_nearest_word_wins_and_far_ones_do_not_count() {
        let known = ["cache.bytes", "cleaning.background", "host.executes"];
        assert_eq!(nearest("cache.byte", known), Some("cache.bytes"));
        assert_eq!(nearest("hots.executes", known), Some("host.executes"));
        assert_eq!(nearest("colour", known), None);
    }
}
