//! Images of file systems: `nandlab image`.

use crate::boundary::interruptible;
use crate::{UncertainError, failed};
use image::{
    AnyImage, ExtractOptions, ImageError, MakeOptions, Nilfs2MakeOptions, OpenOptions, Padding,
    Remark, Report, UbiMakeOptions, diff, make,
};
use pyo3::prelude::*;
use pyo3::wrap_pyfunction;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// How an image is read, as JSON.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Opening {
    fs: Option<String>,
    oob_layout: Option<String>,
    ecc: Option<String>,
    oob: Option<bool>,
    page_size: Option<u32>,
    block_size: Option<u32>,
    vid_hdr_offset: Option<u32>,
    volume: Option<String>,
    profile: Option<String>,
    checkpoint: Option<u64>,
}

/// How an image is made, as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "the switches of the command, one for one")]
struct Making {
    fs: String,
    device_table: Option<PathBuf>,
    squash_uids: bool,
    squash_perms: bool,
    pad_to_block: bool,
    pad_bytes: Option<u64>,
    size_limit_bytes: Option<u64>,
    oob: bool,
    part: String,
    blocks: Option<u32>,
    page_size: Option<u32>,
    profile: Option<String>,
    options: Vec<String>,
    source_date_epoch: Option<i64>,
    bare: bool,
    leb_size: Option<u32>,
    max_leb_cnt: Option<u32>,
    jrn_size: Option<u64>,
    reserved: Option<u64>,
    space_fixup: bool,
    vid_hdr_offset: Option<u32>,
    volume: Option<String>,
    ubinize: Option<PathBuf>,
    image_seq: Option<u32>,
    erase_counter: u64,
    size: Option<u64>,
    blocks_per_segment: Option<u32>,
    label: Option<String>,
    reserved_percent: Option<u32>,
}

fn open(path: &Path, options_json: &str) -> PyResult<AnyImage> {
    let given: Opening = serde_json::from_str(options_json).map_err(failed)?;
    let options = OpenOptions {
        file_system: given.fs,
        oob_layout: given.oob_layout,
        ecc: given.ecc,
        has_oob: given.oob,
        page_bytes: given.page_size,
        block_bytes: given.block_size,
        vid_header_offset: given.vid_hdr_offset,
        volume: given.volume,
        profile: given.profile,
        checkpoint: given.checkpoint,
    };
    AnyImage::open(path, &options).map_err(|error| match error {
        ImageError::Uncertain { .. } => UncertainError::new_err(error.to_string()),
        other => failed(other),
    })
}

fn damage_json(damage: &[vfs::Damage]) -> Value {
    damage.iter().map(|damage| json!({"path": damage.path, "what": damage.what})).collect()
}

/// The rows of an image as JSON and as TSV, and what could not be read.
#[pyfunction]
fn image_list(
    python: Python<'_>,
    path: PathBuf,
    options_json: String,
    has_hashes: bool,
) -> PyResult<String> {
    interruptible(python, move || {
        let listing = open(&path, &options_json)?.list(has_hashes).map_err(failed)?;
        let answer = json!({
            "rows": listing.to_json(has_hashes),
            "tsv": listing.manifest.to_tsv(),
            "damage": damage_json(&listing.damage),
            "notes": listing.notes,
        });
        Ok(answer.to_string())
    })
}

/// Extracts the tree of an image into a new directory.
#[pyfunction]
fn image_extract(
    python: Python<'_>,
    path: PathBuf,
    options_json: String,
    directory: PathBuf,
    has_devices: bool,
    has_owners: bool,
) -> PyResult<String> {
    interruptible(python, move || {
        let options = ExtractOptions { has_devices, has_owners };
        let done = open(&path, &options_json)?.extract(&directory, options).map_err(failed)?;
        let left_out = done.left_out.iter().map(|(path, what)| json!({"path": path, "what": what}));
        let left_out: Vec<Value> = left_out.collect();
        let replaced = done.replaced.map(|path| path.to_string_lossy().into_owned());
        Ok(json!({
            "names": done.names,
            "bytes": done.bytes,
            "left_out": left_out,
            "replaced": replaced,
        })
        .to_string())
    })
}

/// What is inconsistent in an image.
#[pyfunction]
fn image_check(python: Python<'_>, path: PathBuf, options_json: String) -> PyResult<String> {
    let remarks = |remarks: &[Remark]| -> Value {
        remarks.iter().map(|one| json!({"place": one.place, "what": one.what})).collect()
    };
    interruptible(python, move || {
        let image = open(&path, &options_json)?;
        let has_ecc = image.has_ecc();
        let Report { findings, notes, corrected_bits, lost_steps } =
            image.check().map_err(failed)?;
        let answer = json!({
            "fs": image.file_system(),
            "findings": remarks(&findings),
            "notes": remarks(&notes),
            "corrected_bits": has_ecc.then_some(corrected_bits),
            "lost_steps": has_ecc.then_some(lost_steps),
        });
        Ok(answer.to_string())
    })
}

/// What an image is.
#[pyfunction]
fn image_info(python: Python<'_>, path: PathBuf, options_json: String) -> PyResult<String> {
    interruptible(python, move || {
        Ok(open(&path, &options_json)?.info().map_err(failed)?.to_string())
    })
}

/// The paths at which two images differ.
#[pyfunction]
fn image_diff(
    python: Python<'_>,
    left: PathBuf,
    right: PathBuf,
    left_options_json: String,
    right_options_json: String,
) -> PyResult<String> {
    interruptible(python, move || {
        let images = [(left, left_options_json), (right, right_options_json)];
        let [left, right] = images.map(|(path, options_json)| {
            let listing = open(&path, &options_json)?.list(true).map_err(failed)?;
            Ok::<_, PyErr>(listing)
        });
        let (left, right) = (left?, right?);
        let differences: Vec<Value> = diff(&left.manifest, &right.manifest)
            .into_iter()
            .map(|difference| {
                let columns = difference.columns.into_iter();
                let columns: Vec<Value> = columns.map(|column| json!(column)).collect();
                json!({"path": difference.path, "columns": columns})
            })
            .collect();
        let damage = [damage_json(&left.damage), damage_json(&right.damage)];
        Ok(json!({"differences": differences, "damage": damage}).to_string())
    })
}

/// Makes an image of a directory.
#[pyfunction]
fn image_make(
    python: Python<'_>,
    directory: Option<PathBuf>,
    path: PathBuf,
    options_json: &str,
) -> PyResult<String> {
    let given: Making = serde_json::from_str(options_json).map_err(failed)?;
    let padding = match given.pad_bytes {
        Some(bytes) => Some(Padding::Bytes(bytes)),
        None => given.pad_to_block.then_some(Padding::Block),
    };
    let options = MakeOptions {
        file_system: given.fs,
        device_table: given.device_table,
        squashes_owners: given.squash_uids,
        squashes_permissions: given.squash_perms,
        padding,
        size_limit_bytes: given.size_limit_bytes,
        has_oob: given.oob,
        part: given.part,
        blocks: given.blocks,
        page_bytes: given.page_size,
        profile: given.profile,
        mount_options: given.options,
        latest_time: given.source_date_epoch,
        ubi: UbiMakeOptions {
            is_bare: given.bare,
            leb_bytes: given.leb_size,
            max_leb_count: given.max_leb_cnt,
            journal_bytes: given.jrn_size,
            reserved_bytes: given.reserved,
            fixes_space: given.space_fixup,
            vid_header_offset: given.vid_hdr_offset,
            volume: given.volume,
            config: given.ubinize,
            image_sequence: given.image_seq,
            erase_counter: given.erase_counter,
        },
        nilfs2: Nilfs2MakeOptions {
            size_bytes: given.size,
            blocks_per_segment: given.blocks_per_segment,
            label: given.label,
            reserved_percent: given.reserved_percent,
        },
    };
    let made =
        interruptible(python, move || make(directory.as_deref(), &path, &options).map_err(failed))?;
    Ok(json!({"names": made.names, "pages": made.pages, "bytes": made.file_bytes}).to_string())
}

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(image_list, module)?)?;
    module.add_function(wrap_pyfunction!(image_extract, module)?)?;
    module.add_function(wrap_pyfunction!(image_check, module)?)?;
    module.add_function(wrap_pyfunction!(image_info, module)?)?;
    module.add_function(wrap_pyfunction!(image_diff, module)?)?;
    module.add_function(wrap_pyfunction!(image_make, module)?)
}
