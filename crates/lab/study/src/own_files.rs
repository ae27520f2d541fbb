//! Files of the user's own that a study names: parts, boards, devices, block devices and a script.
//!
//! They stand beside the study file, or where the name leads from the current folder. A run that is to
//! be repeated needs them, so they are kept with its results.

use crate::StudyError;
use crate::study_file::Study;
use board::Board;
use std::path::{Component, Path, PathBuf};

/// Before a key of the device, in the name of an axis that varies it.
pub(crate) const DEVICE_PREFIX: &str = "device.";

/// The key of a device that names its part.
const PART_OF_DEVICE: &str = "flash.part";

/// A file that a study names.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct OwnFile {
    /// Kind of thing that the file describes.
    pub what: &'static str,
    /// As the study names it.
    pub name: String,
    /// Where it was found.
    pub path: String,
}

/// A name without steps to the folder where it is already: `./mine.toml` is `mine.toml`.
pub(crate) fn plain(name: &str) -> String {
    let parts = Path::new(name).components().filter(|part| *part != Component::CurDir);
    parts.collect::<PathBuf>().display().to_string()
}

impl Study {
    /// The file of that name in the folder of the study.
    pub(crate) fn file_of(&self, name: &str) -> PathBuf {
        self.moved.get(&plain(name)).cloned().unwrap_or_else(|| self.folder.join(name))
    }

    /// A device file is found as a part file is; the name of a preset stays as it is.
    pub(crate) fn device_beside(&self, name: &str) -> String {
        if device::find_device(name).is_ok() { name.to_owned() } else { self.beside(name) }
    }

    /// A file of that name beside the study file, else the name as it is.
    pub(crate) fn beside(&self, name: &str) -> String {
        let beside = self.file_of(name);
        if beside.is_file() { beside.display().to_string() } else { name.to_owned() }
    }

    /// A part file is found beside the study file, as traces are; a catalogue name stays as it is.
    pub(crate) fn part_beside(&self, part: &str) -> String {
        if nand::find_part(part).is_some() { part.to_owned() } else { self.beside(part) }
    }

    /// The catalogue board of a name, else the board file beside the study or at that path.
    ///
    /// # Errors
    /// An unknown name with a suggestion; a file that is no board.
    pub(crate) fn board_beside(&self, name: &str) -> Result<Board, StudyError> {
        if let Some(board) = board::find_board(name) {
            return Ok(board);
        }
        let path = self.beside(name);
        let path = Path::new(&path);
        if path.is_file() || path.extension().is_some_and(|extension| extension == "toml") {
            return Ok(board::load_board(path)?);
        }
        let known = board::catalogue();
        Err(StudyError::unknown("board", name, known.iter().map(|board| board.name.as_str())))
    }

    /// Files of the user's own, each once, in the order of the kinds.
    pub fn own_files(&self) -> Vec<OwnFile> {
        let host = self.host.as_ref();
        let on_axis = |axis: &str| -> Vec<String> {
            self.axes.get(axis).into_iter().flatten().map(ToString::to_string).collect()
        };
        // Extra runs may name values that the axis lacks.
        let of_extra_runs = |axis: &str| -> Vec<String> {
            let values = self.extra_runs.iter().filter_map(|extra| extra.axes.get(axis));
            values.flatten().map(ToString::to_string).collect()
        };
        let named = |given: Option<&String>, axis: &str| -> Vec<String> {
            given.into_iter().cloned().chain(on_axis(axis)).chain(of_extra_runs(axis)).collect()
        };
        let kinds = [
            ("part", named(self.part.as_ref(), "part")),
            ("board", named(host.map(|host| &host.board), "board")),
            ("device", named(host.and_then(|host| host.device.as_ref()), "device")),
            (
                "block device",
                named(host.and_then(|host| host.block_device.as_ref()), "block_device"),
            ),
            ("script", named(self.workload.script.as_ref(), "script")),
        ];
        let mut files: Vec<OwnFile> = Vec::new();
        for (what, names) in kinds {
            for name in names {
                // What the catalogue has is no file of the user's, even if a file is called so.
                let is_known = match what {
                    "part" => nand::find_part(&name).is_some(),
                    "device" => device::find_device(&name).is_ok(),
                    "board" => board::find_board(&name).is_some(),
                    _ => false,
                };
                let path = self.beside(&name);
                let file = OwnFile { what, name, path };
                if !is_known && Path::new(&file.path).is_file() && !files.contains(&file) {
                    files.push(file);
                }
            }
        }
        for file in self.parts_of_devices(&files) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
        let policies = self.own_policies(&files);
        files.extend(policies);
        files
    }

    /// Part files that the user's own device files name, or that a device is given in their place.
    ///
    /// The first are found from the folder of the device file. They have its name, as all files have that
    /// come with another one.
    fn parts_of_devices(&self, files: &[OwnFile]) -> Vec<OwnFile> {
        let devices = files.iter().filter(|file| ["device", "block device"].contains(&file.what));
        let of_files = devices.filter_map(|file| {
            // A file that is no device is an error of the run, with a message of its own.
            let device = device::find_or_load(&file.path).ok()?;
            let part = device.flash?.part;
            Some(OwnFile { what: "part", name: file.name.clone(), path: part })
        });
        let mechanisms = self.mechanisms.values();
        let of_mechanisms = mechanisms.filter_map(|changes| {
            Some(ftl::Value::from(changes.device.get(PART_OF_DEVICE)?).to_string())
        });
        let axis = format!("{DEVICE_PREFIX}{PART_OF_DEVICE}");
        let extra = self.extra_runs.iter().filter_map(|extra| extra.axes.get(&axis));
        let of_axis = self.axes.get(&axis).into_iter().chain(extra).flatten();
        let given = of_mechanisms.chain(of_axis.map(ToString::to_string));
        let of_given = given.map(|name| OwnFile { what: "part", path: self.beside(&name), name });
        of_files
            .chain(of_given)
            .filter(|file| nand::find_part(&file.path).is_none() && Path::new(&file.path).is_file())
            .collect()
    }

    /// Sources of the policies of the user's own that the study names, or a device file of it.
    fn own_policies(&self, files: &[OwnFile]) -> Vec<OwnFile> {
        // A name may stand in an axis, a setting or a variant: wherever it does, it is this text.
        let study = serde_json::to_string(self).unwrap_or_default();
        let devices: Vec<String> = files
            .iter()
            .filter(|file| file.what.ends_with("device"))
            .filter_map(|file| std::fs::read_to_string(&file.path).ok())
            .collect();
        let is_named = |name: &str| {
            // TOML has two kinds of quotes; a name within another one costs a key that differs.
            study.contains(&serde_json::Value::from(name).to_string())
                || devices.iter().any(|device| device.contains(name))
        };
        let sources = ftl::own::sources().into_iter().filter(|(name, _)| is_named(name));
        sources.map(|(name, path)| OwnFile { what: "policy", name, path }).collect()
    }
}
