//! Any trace into the canonical form, in one pass.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::TraceError;
use crate::options::Options;
use crate::parquet::TraceWriter;
use crate::reader;
use crate::summary::{Summary, Tally};

/// Reads the trace `input` and writes it to `output`, which appears only when it is complete.
///
/// The file's metadata are the given ones, to which `source_format`, `source_name` (without
/// directories) and `digest` are added.
///
/// # Errors
/// As [`crate::open`] and [`crate::Reader::next_batch`]; [`crate::Kind::Io`] if the output cannot be written.
pub fn convert(
    input: &Path,
    options: &Options,
    output: &Path,
    metadata: &BTreeMap<String, String>,
) -> Result<Summary, TraceError> {
    let mut reader = reader::open(input, options)?;
    let mut writer = TraceWriter::create(output)?;
    let (mut tally, mut batch) = (Tally::default(), Vec::new());
    while reader.next_batch(&mut batch)? {
        tally.add(&batch);
        writer.write(&batch)?;
    }
    let summary = tally.finish(&reader);
    // Without directories, so that the bytes do not depend on where the trace lay.
    let source_name = input.file_name().unwrap_or(input.as_os_str()).to_string_lossy();
    let mut metadata = metadata.clone();
    metadata.insert("source_format".to_owned(), summary.format.to_owned());
    metadata.insert("source_name".to_owned(), source_name.into_owned());
    metadata.insert("digest".to_owned(), summary.digest.clone());
    writer.finish(&metadata)?;
    Ok(summary)
}
