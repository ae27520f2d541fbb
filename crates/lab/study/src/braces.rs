//! Names of axes in braces within a text of a study: `{file_mib}m` in a command line.

use std::collections::BTreeMap;

/// Names in braces in a text, which axes fill in.
pub(crate) fn names_in_braces(text: &str) -> impl Iterator<Item = String> {
    // A brace that is not closed holds no name.
    text.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0.to_owned()))
}

/// The text with the values of the axes for their names in braces.
pub(crate) fn filled_in(text: &str, values: &BTreeMap<&str, &str>) -> String {
    values
        .iter()
        .fold(text.to_owned(), |text, (axis, value)| text.replace(&format!("{{{axis}}}"), value))
}
