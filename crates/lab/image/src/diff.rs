//! What two images hold, compared by path.

use vfs::{Manifest, ManifestRow};

/// A path at which two images differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Path of the difference, escaped.
    pub path: String,
    /// What differs: column, value in the first image, value in the second; `-` for what is not there.
    pub columns: Vec<(&'static str, String, String)>,
}

/// The paths at which two trees differ, in the order of the bytes of the paths.
pub fn diff(left: &Manifest, right: &Manifest) -> Vec<Difference> {
    let pairs = pairs(left, right);
    let differences = pairs.into_iter().filter_map(|(left, right)| {
        let path = left.or(right)?.path.clone();
        let columns = match (left, right) {
            (Some(left), Some(right)) => {
                let both = columns(left).into_iter().zip(columns(right));
                both.filter(|(a, b)| a != b).map(|((name, a), (_, b))| (name, a, b)).collect()
            }
            (Some(left), None) => vec![("type", left.kind.to_string(), "-".into())],
            (None, Some(right)) => vec![("type", "-".into(), right.kind.to_string())],
            (None, None) => Vec::new(),
        };
        (!columns.is_empty()).then_some(Difference { path, columns })
    });
    differences.collect()
}

fn columns(row: &ManifestRow) -> Vec<(&'static str, String)> {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    let device = row.device.map(|(major, minor)| format!("{major}:{minor}"));
    let extended: Vec<String> =
        row.extended.iter().map(|(name, value)| format!("{name}={value}")).collect();
    vec![
        ("type", row.kind.to_string()),
        ("mode", format!("{:04o}", row.permissions)),
        ("nlink", row.links.to_string()),
        ("uid", row.uid.to_string()),
        ("gid", row.gid.to_string()),
        ("size", row.size_bytes.to_string()),
        ("mtime", row.modified.to_string()),
        ("rdev", or_dash(&device)),
        ("sha256", or_dash(&row.sha256)),
        ("target", or_dash(&row.target)),
        ("xattrs", if extended.is_empty() { "-".into() } else { extended.join(",") }),
    ]
}

/// Rows of two manifests by path.
pub(crate) fn pairs<'m>(
    left: &'m Manifest,
    right: &'m Manifest,
) -> Vec<(Option<&'m ManifestRow>, Option<&'m ManifestRow>)> {
    // Manifests are sorted by the bytes of their paths, the root first.
    let key = |row: &&'m ManifestRow| (row.path != ".", vfs::unescape_path(&row.path));
    let mut pairs = Vec::new();
    let (mut lefts, mut rights) = (left.rows.iter().peekable(), right.rows.iter().peekable());
    loop {
        let order = match (lefts.peek(), rights.peek()) {
            (None, None) => return pairs,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(a), Some(b)) => key(a).cmp(&key(b)),
        };
        // Both go on where the paths are equal.
        pairs.push((
            order.is_le().then(|| lefts.next()).flatten(),
            order.is_ge().then(|| rights.next()).flatten(),
        ));
    }
}
