//! Checks of what the volumes of UBI hold: CRCs of static ones, everything of UBIFS.
//!
//! The file system is mounted as a kernel mounts it read-only: what a power cut left is recovered in memory.

use crate::Image;
use crate::report::Report;
use crate::volumes::{Holding, read_raw};
use file_systems::UbifsMount;
use std::collections::BTreeSet;
use ubi::{FindingCode as Code, VolumeInfo};
use vfs::{Manifest, ReadLimits};

impl Image {
    /// Checks the volumes that are asked for, or all.
    pub(crate) fn check_ubifs(&self, limits: ReadLimits, report: &mut Report) {
        if self.form.is_bare {
            self.check_mounted(None, limits, report);
            return;
        }
        let volumes = match self.volumes() {
            Ok(volumes) => volumes,
            Err(error) => {
                report.find("UBI", error.to_string());
                return;
            }
        };
        self.add_attach_findings(report);
        if let (Some(name), []) = (&self.request.ubi.volume, &volumes[..]) {
            report.find("UBI", format!("there is no volume `{name}`"));
        }
        for (volume, holding) in volumes {
            let place = format!("volume {}", volume.name);
            match holding {
                Holding::Raw => self.check_raw(&volume, report),
                Holding::Nothing => report.note(place, "it is empty"),
                Holding::Other => {
                    report.note(place, "it holds no UBIFS: its data is not looked into");
                }
                Holding::Ubifs => self.check_mounted(Some(&volume), limits, report),
            }
        }
    }

    /// What the attach said, but for what the checks of the medium tell with the place.
    fn add_attach_findings(&self, report: &mut Report) {
        // With their places in the blocks these are told by the checks of the medium.
        const TOLD: &[Code] = &[
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
        let found = self.run_ubi(async |ubi| ubi.findings()).unwrap_or_default();
        for finding in found {
            // A plain image is not all of a chip.
            let is_of_chip = finding.code == Code::SmallReserve.name();
            let is_told = TOLD.iter().any(|told| finding.code == told.name());
            if !is_told && (!is_of_chip || self.form.has_oob) {
                report.note("UBI", finding.text);
            }
        }
    }

    fn check_raw(&self, volume: &VolumeInfo, report: &mut Report) {
        let (id, place) = (volume.id, format!("volume {}", volume.name));
        match self.run_ubi(move |ubi| async move { read_raw(&ubi, id).await }) {
            // The medium's checks tell of an update that was cut short.
            Ok(Ok((_, true)) | Err(ubi::UbiError::Incomplete(_))) => {}
            Ok(Ok((_, false))) => report.find(place, "its data is not what its CRCs say"),
            Ok(Err(error)) => report.find(place, error.to_string()),
            Err(error) => report.find(place, error.to_string()),
        }
    }

    fn check_mounted(&self, volume: Option<&VolumeInfo>, limits: ReadLimits, report: &mut Report) {
        let mut request = self.request.clone();
        request.ubi.volume = volume.map(|volume| volume.name.clone());
        let place = |of: &str| match volume {
            Some(volume) => format!("volume {}: {of}", volume.name),
            None => of.to_owned(),
        };
        let checked = self.run_as(request, move |_, mounted| async move {
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
                report.find(place("UBIFS"), error.to_string());
                return;
            }
        };
        for damage in damage {
            report.find(place(&format!("path {}", damage.path)), damage.what);
        }
        // Each read of a damaged node says so again.
        for finding in findings.into_iter().collect::<BTreeSet<_>>() {
            report.find(place("UBIFS"), finding.text);
        }
        match complaints {
            Ok(complaints) => {
                for complaint in complaints {
                    report.find(place("UBIFS"), complaint.text);
                }
            }
            Err(errno) => {
                report.find(place("UBIFS"), format!("it cannot be checked whole: {errno}"));
            }
        }
    }
}
