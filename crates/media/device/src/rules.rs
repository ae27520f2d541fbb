//! The check of a section of a device file: rules and the sentences that name them.

/// Checks the rules of a section in order; each is whether it holds, and a sentence that begins with its key.
///
/// # Errors
/// The sentence of the first rule that does not hold, with the section in front of the key.
pub(crate) fn first_broken(section: &str, rules: &[(bool, &str)]) -> Result<(), String> {
    match rules.iter().find(|(holds, _)| !holds) {
        Some((_, sentence)) => Err(format!("{section}.{sentence}")),
        None => Ok(()),
    }
}
