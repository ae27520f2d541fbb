//! Checks of what the volumes of UBI hold: CRCs of static ones, everything of UBIFS.
//!
//! The file system is mounted as a kernel mounts it read-only: what a power cut left is recovered in memory.

use super::volumes::{Holding, read_raw, run_ubi, volumes};
use crate::chip::ChipImage;
use crate::report::Report;
use file_systems::UbifsMount;
use std::collections::BTreeSet;
use ubi::{FindingCode as Code, VolumeInfo};
use vfs::{Manifest, ReadLimits};

/// Checks the volumes that are asked for, or all.
pub(super) fn check_volumes(image: &ChipImage, limits: ReadLimits, report: &mut Report) {
    let volumes = match volumes(image) {
        Ok(volumes) => volumes,
        Err(error) => {
            report.add_finding("UBI", error.to_string());
            return;
        }
    };
    add_attach_findings(image, report);
    if let (Some(name), []) = (&image.request.ubi.volume, &volumes[..]) {
        report.add_finding("UBI", format!("there is no volume `{name}`"));
    }
    for (volume, holding) in volumes {
        let place = format!("volume {}", volume.name);
        match holding {
            Holding::Raw => check_raw(image, &volume, report),
            Holding::Nothing => report.add_note(place, "it is empty"),
            Holding::Other => {
                report.add_note(place, "it holds no UBIFS: its data is not looked into");
            }
            Holding::Ubifs => check_mounted(image, Some(&volume), limits, report),
        }
    }
}

/// What the attach said, but for what the checks of the medium report with the place.
fn add_attach_findings(image: &ChipImage, report: &mut Report) {
    // The checks of the medium report these with their places in the blocks.
    const WITH_PLACES: &[Code] = &[
        Code::AlienBlock,
        Code::BadBlock,
        Code::DamagedHeader,
        Code::DamagedTable,
        Code::FailedWrite,
        Code::Fastmap,
        Code::LostCounter,
        Code::TestedBlock,
        Code::UnreadableData,
        Code::UnreadableSource,
        Code::WornBlock,
        Code::WrongCrc,
    ];
    let found = run_ubi(image, async |ubi| ubi.findings()).unwrap_or_default();
    for finding in found {
        // A plain image is not all of a chip.
        let is_of_chip = finding.code == Code::SmallReserve.name();
        let has_place = WITH_PLACES.iter().any(|code| finding.code == code.name());
        if !has_place && (!is_of_chip || image.form.has_oob) {
            report.add_note("UBI", finding.text);
        }
    }
}

fn check_raw(image: &ChipImage, volume: &VolumeInfo, report: &mut Report) {
    let (id, place) = (volume.id, format!("volume {}", volume.name));
    match run_ubi(image, move |ubi| async move { read_raw(&ubi, id).await }) {
        // The checks of the medium report an update that was cut short.
        Ok(Ok((_, true)) | Err(ubi::UbiError::Incomplete(_))) => {}
        Ok(Ok((_, false))) => report.add_finding(place, "its data is not what its CRCs say"),
        Ok(Err(error)) => report.add_finding(place, error.to_string()),
        Err(error) => report.add_finding(place, error.to_string()),
    }
}

/// Mounts a volume, or the file system that stands alone, and reads everything.
pub(super) fn check_mounted(
    image: &ChipImage,
    volume: Option<&VolumeInfo>,
    limits: ReadLimits,
    report: &mut Report,
) {
    let mut request = image.request.clone();
    request.ubi.volume = volume.map(|volume| volume.name.clone());
    let place = |of: &str| match volume {
        Some(volume) => format!("volume {}: {of}", volume.name),
        None => of.to_owned(),
    };
    let checked = image.run_as(request, move |_, mounted| async move {
        let fs = &*mounted.file_system;
        let (_, damage) = Manifest::fingerprinted(fs, &limits).await;
        let Some(mount) = fs.get::<UbifsMount>() else {
            return (damage, Ok(Vec::new()), Vec::new());
        };
        let complaints = mount.file_system.check().await;
        (damage, complaints, mount.file_system.findings())
    });
    let (damage, complaints, findings) = match checked {
        Ok(checked) => checked,
        Err(error) => {
            report.add_finding(place("UBIFS"), error.to_string());
            return;
        }
    };
    for damage in damage {
        report.add_finding(place(&format!("path {}", damage.path)), damage.what);
    }
    // Each read of a damaged node says so again.
    for finding in findings.into_iter().collect::<BTreeSet<_>>() {
        report.add_finding(place("UBIFS"), finding.text);
    }
    match complaints {
        Ok(complaints) => {
            for complaint in complaints {
                report.add_finding(place("UBIFS"), complaint.text);
            }
        }
        Err(errno) => {
            report.add_finding(place("UBIFS"), format!("it cannot be checked whole: {errno}"));
        }
    }
}
