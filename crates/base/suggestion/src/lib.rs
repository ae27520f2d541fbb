//! "Did you mean": the known word nearest to a mistyped one.
//!
//! Every message about an unknown name (a layer, an axis, a key, a call of a script) ends with what it finds.

/// Longer words are compared by their first characters only: names are not that long, and the cost of
/// a comparison grows with the product of both lengths.
const LONGEST_COMPARED_CHARS: usize = 64;

/// The candidate nearest to `word`, if it is near enough to be what was meant.
///
/// Nearness is the number of insertions, deletions, replacements and exchanges of neighbours
/// (optimal string alignment: Damerau 1964) without regard to case. It may be a third of the letters,
/// or one; the first of several equally near candidates wins.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = comparable(word);
    // A candidate that differs in more letters is rarely what was meant.
    let allowed = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&word, &comparable(candidate)), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The nearest candidate as the end of a message, `; did you mean `X`?`, or nothing.
pub fn hint<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

/// What of a word is compared.
fn comparable(word: &str) -> String {
    word.chars().take(LONGEST_COMPARED_CHARS).flat_map(char::to_lowercase).collect()
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

    #[test]
    fn case_does_not_matter_and_long_words_are_cut() {
        let names = ["blkparse", "blktrace", "msr", "spc"];
        assert_eq!(nearest("blktrac", names), Some("blktrace"));
        assert_eq!(nearest("MSR", names), Some("msr"));
        assert_eq!(nearest("mrs", names), Some("msr"));
        assert_eq!(nearest("srm", names), None);
        assert_eq!(nearest("zebra", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest(&"x".repeat(100_000), names), None);
    }

    #[test]
    fn the_first_of_equally_near_words_wins() {
        assert_eq!(nearest("page", ["pace", "pale"]), Some("pace"));
    }
}
