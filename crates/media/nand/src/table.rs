//! The table of catalogue parts: a row is a file of the folder `parts`.
//!
//! Every value of a catalogue part stands beside its source: a test refuses a key without one.

use crate::part::Part;

macro_rules! embedded {
    ($($file:literal),* $(,)?) => {
        &[$(($file, include_str!(concat!("../../../../parts/", $file, ".toml")))),*]
    };
}

/// Name and text of every catalogue part, sorted by name.
const TEXTS: &[(&str, &str)] = embedded!(
    "generic-mlc-1x",
    "generic-mlc-2x",
    "generic-mlc-3d",
    "generic-qlc-3d",
    "generic-tlc-2d",
    "generic-tlc-3d",
    "generic-tlc-3d-64l",
    "k9f1g08u0a",
    "k9f2g08u0b",
    "k9f2g08u0c",
    "k9f5608u0d",
    "k9gag08u0m",
    "mt29f2g08aab",
    "nandsim-64MiB",
    "published-small-block",
);

/// All catalogue parts, sorted by name.
pub fn catalogue() -> Vec<Part> {
    TEXTS
        .iter()
        .map(|(name, text)| Part::parse(name, text).expect("the catalogue is tested"))
        .collect()
}

/// The catalogue part called `name`, in capitals or not.
pub fn find_part(name: &str) -> Option<Part> {
    let (name, text) = TEXTS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some(Part::parse(name, text).expect("the catalogue is tested"))
}

#[cfg(test)]
mod tests {
    use super::{TEXTS, catalogue};
    use crate::part::{DEFAULT_PART, MODEL_TEXT};

    #[test]
    fn the_catalogue_is_sorted_named_as_its_files_and_holds_the_default() {
        assert!(TEXTS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (part, (file, _)) in catalogue().iter().zip(TEXTS) {
            assert_eq!(part.name, *file);
        }
        let default =
            TEXTS.iter().find(|(name, _)| *name == DEFAULT_PART).expect("in the catalogue");
        assert_eq!(default.1, MODEL_TEXT);
    }

    #[test]
    fn every_value_of_the_catalogue_has_a_source() {
        for (file, text) in TEXTS {
            let table: toml::Table = text.parse().expect("parsed before");
            let sources = table["sources"].as_table().expect("sources");
            for section in ["geometry", "timing", "errors"] {
                for key in table[section].as_table().expect("a table").keys() {
                    let named = sources.contains_key(&format!("{section}.{key}"))
                        || sources.contains_key(section);
                    assert!(named, "{file}: {section}.{key} has no source");
                }
            }
        }
    }
}
