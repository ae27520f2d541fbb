//! Which format a trace has: what its content and its file name say.

use std::path::Path;

use crate::contract::{FormatEntry, Head, Match};
use crate::error::{Fault, Kind};
use crate::table::FORMATS;

/// The format to read with: the named one unless the content is plainly another's, else the one
/// the content fits.
pub(crate) fn choose(
    named: Option<&'static FormatEntry>,
    head: &[u8],
    path: &Path,
) -> Result<&'static FormatEntry, Fault> {
    if head.is_empty() {
        return Err(Fault::new(Kind::Empty, "the file is empty"));
    }
    let head = Head::new(head);
    let fitting = |wanted: Match| {
        FORMATS.iter().copied().filter(|entry| (entry.detect)(&head) == wanted).collect::<Vec<_>>()
    };
    let certain = fitting(Match::Certain);
    // Only content that is certainly of one other format contradicts a name that was given.
    match (named, certain.as_slice()) {
        (Some(named), [other]) if (named.detect)(&head) == Match::No => Err(Fault::new(
            Kind::WrongFormat,
            format!("the content is not {} but {}", named.name, other.name),
        )
        .suggest(format!("leave --format out or say --format {}", other.name))),
        (Some(named), _) => Ok(named),
        (None, [only]) => Ok(only),
        (None, _) => choose_possible(&fitting(Match::Possible), &head, path),
    }
}

/// Where content leaves several formats, a telling file name decides.
fn choose_possible(
    possible: &[&'static FormatEntry],
    head: &Head,
    path: &Path,
) -> Result<&'static FormatEntry, Fault> {
    let by_name: Vec<_> =
        possible.iter().copied().filter(|entry| is_named_like(entry, path)).collect();
    // One format alone fits, or one alone is called so.
    if let ([only], _) | (_, [only]) = (possible, by_name.as_slice()) {
        return Ok(only);
    }
    let first = head.lines().next().unwrap_or_default();
    if possible.is_empty() {
        let names: Vec<_> = FORMATS.iter().map(|entry| entry.name).collect();
        return Err(Fault::new(Kind::Undetectable, "the content fits no format")
            .quoting(first)
            .suggest(format!("name it with --format: {}", names.join(", "))));
    }
    let names: Vec<_> = possible.iter().map(|entry| entry.name).collect();
    Err(Fault::new(Kind::Ambiguous, format!("the content fits {}", names.join(", ")))
        .quoting(first)
        .suggest(format!(
            "name it with --format {}; mqsim also needs --time-unit ps, ns or us",
            names.join(" or ")
        )))
}

/// Whether the file is called as the format's files usually are, compressed or not.
fn is_named_like(entry: &FormatEntry, path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let plain = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
    entry.file_names.iter().any(|pattern| plain.ends_with(pattern.trim_start_matches('*')))
}
