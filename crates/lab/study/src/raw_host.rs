//! The host, the chip and the file system of a run on raw NAND, from the axes of a study.

use crate::StudyError;
use crate::flash_aging::{FRESH, FlashPlan, FlashState, key_of};
use crate::ftl_device::{check_geometry, find_part_or_file};
use crate::study_file::Study;
use crate::study_parts::refuse;
use board::Board;
use file_systems::find_kind;
use mount::{KernelProfile, Kind};
use mtd::{LAYOUTS, OobLayout};
use nand::Part;
use std::collections::BTreeMap;

/// A board with a chip, and the file system on it.
#[derive(Clone, Debug)]
pub(crate) struct RawHost {
    pub(crate) kind: &'static Kind,
    pub(crate) profile: &'static str,
    /// Kernels that the profile stands for, unless a study names the profile itself.
    pub(crate) kernels: Option<KernelProfile>,
    pub(crate) board: Board,
    pub(crate) part: Part,
    pub(crate) layout: &'static OobLayout,
}

fn wrong<T>(place: &str, reason: impl Into<String>) -> Result<T, StudyError> {
    Err(StudyError::Study { place: place.to_owned(), reason: reason.into() })
}

/// Checks states of the flash, and that nothing is said that means nothing to file systems on raw NAND.
///
/// # Errors
/// [`StudyError::Study`] with the state that is wrong, or the part that the kind does not take.
pub(crate) fn check_flash_states(study: &Study) -> Result<(), StudyError> {
    for (name, state) in &study.flash_states {
        let place = format!("flash_states.{name}");
        state.check().or_else(|reason| wrong(&place, reason))?;
        if name == FRESH {
            return wrong(&place, "`fresh` is the formatted flash and cannot mean anything else");
        }
    }
    refuse(study, &["job", "mechanisms", "timeline"])
}

impl RawHost {
    /// What a combination of axis values names.
    ///
    /// # Errors
    /// Names that do not exist, with a suggestion; values that do not fit.
    pub(crate) fn of(study: &Study, values: &BTreeMap<&str, &str>) -> Result<Self, StudyError> {
        let value = |axis: &str| values.get(axis).copied();
        let kind = find_kind(value("file_system").unwrap_or_default()).map_err(|_| {
            let known = file_systems::KINDS.iter().map(|kind| kind.name);
            StudyError::unknown("file system", value("file_system").unwrap_or_default(), known)
        })?;
        let host = study.host.as_ref();
        let Some(board) = value("board").or(host.map(|host| host.board.as_str())) else {
            return wrong("host", "name a board in [host], or make `board` an axis");
        };
        let mut board = study.board_beside(board)?;
        // What the study says goes before what the board says.
        if let Some(host) = host {
            board.hz = host.hz.unwrap_or(board.hz);
            board.kernel = host.kernel.clone().unwrap_or(board.kernel);
            board.check().or_else(|reason| wrong("host", reason))?;
        }
        // The kernel of the board decides, unless the axis `profile` names one.
        let (profile, kernels) = if let Some(name) = value("profile") {
            let found = kind.profile(Some(name));
            (found.or_else(|error| wrong("profile", error.to_string()))?, None)
        } else {
            let found = kind.profile_of_kernel(&board.kernel);
            let found = found.or_else(|error| wrong("host.kernel", error.to_string()))?;
            (found.name, Some(found))
        };
        let Some(part) = value("part").or(study.part.as_deref()) else {
            return wrong("part", "name the chip, or make `part` an axis");
        };
        let mut part = find_part_or_file(&study.part_beside(part))?;
        // The blocks of the study go before those of the part.
        part.geometry.blocks = study.blocks.unwrap_or(part.geometry.blocks);
        check_geometry(&part.geometry).or_else(|reason| wrong("blocks", reason))?;
        let layout = layout_of(&part)?;
        // A run does not look at where numbers come from, and a study may have ten thousand.
        board.sources.clear();
        part.sources.clear();
        Ok(Self { kind, profile, kernels, board, part, layout })
    }

    /// A note on a profile that was made after another kernel.
    pub(crate) fn kernel_note(&self) -> Option<String> {
        let found = self.kernels.as_ref().filter(|found| !found.is_exact)?;
        Some(format!(
            "{} of kernel {} is simulated by profile {}, which stands for {}",
            self.kind.name, self.board.kernel, found.name, found.kernels
        ))
    }

    /// The flash of a name on the flash axis.
    ///
    /// # Errors
    /// [`StudyError::Unknown`] for a name that does not exist, with a suggestion.
    pub(crate) fn flash(&self, study: &Study, name: &str) -> Result<FlashPlan, StudyError> {
        let aging = match study.flash_states.get(name) {
            Some(state) => Some(state.clone()),
            None if name == FRESH => None,
            None => {
                let known = study.flash_states.keys().map(String::as_str).chain([FRESH]);
                return Err(StudyError::unknown("state of the flash", name, known));
            }
        };
        Ok(self.flash_with(aging, name))
    }

    /// Flash that has aged so, in a state that is called `name`.
    pub(crate) fn flash_with(&self, aging: Option<FlashState>, name: &str) -> FlashPlan {
        FlashPlan {
            kind: self.kind,
            profile: self.profile,
            part: self.part.clone(),
            layout: self.layout,
            aging,
            name: name.to_owned(),
            key: key_of(self.kind, self.profile, &self.part, name),
        }
    }
}

/// Linux's own layout of the spare area for pages of this size.
pub(crate) fn layout_of(part: &Part) -> Result<&'static OobLayout, StudyError> {
    let geometry = &part.geometry;
    let fits = |layout: &&OobLayout| {
        (layout.page_bytes, layout.oob_bytes) == (geometry.page_data_bytes, geometry.page_oob_bytes)
            && layout.name.starts_with("linux")
    };
    LAYOUTS.iter().find(fits).ok_or_else(|| StudyError::Study {
        place: "part".into(),
        reason: format!(
            "{}: no layout of the spare area for pages of {} + {} bytes is known",
            part.name, geometry.page_data_bytes, geometry.page_oob_bytes
        ),
    })
}
