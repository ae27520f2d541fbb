//! UBI on the kernel's chip, by the programs of mtd-utils.

use super::chip::run;
use std::io;

/// Name of the volume that is made on a device without any, as the simulation calls it.
const VOLUME: &str = "nandlab";

/// Whether and how the chip is attached.
#[derive(Debug)]
pub(crate) struct Ubi {
    /// Where volume identifier headers stand if a line does not say so.
    default_offset: Option<u32>,
    /// Where they stood at the last attachment.
    last_offset: Option<u32>,
    is_attached: bool,
}

fn words(fixed: &[&str], header_offset: Option<u32>) -> Vec<String> {
    let mut words: Vec<String> = fixed.iter().map(|word| (*word).to_owned()).collect();
    if let Some(offset) = header_offset {
        words.extend(["-O".to_owned(), offset.to_string()]);
    }
    words
}

impl Ubi {
    pub(crate) fn new(default_offset: Option<u32>) -> Self {
        Self { default_offset, last_offset: default_offset, is_attached: false }
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.is_attached
    }

    /// `ubiformat` with an image sequence number.
    pub(crate) fn format(&self, sequence: u32, header_offset: Option<u32>) -> io::Result<()> {
        let sequence = sequence.to_string();
        let fixed = ["/dev/mtd0", "-q", "-y", "-Q", &sequence];
        run("ubiformat", &words(&fixed, header_offset.or(self.default_offset)))
    }

    pub(crate) fn attach(&mut self, header_offset: Option<u32>) -> io::Result<()> {
        let header_offset = header_offset.or(self.default_offset);
        // Loaded here and not at boot: a script on JFFS2 needs no UBI.
        run("modprobe", &["ubi".to_owned()])?;
        let fixed = ["/dev/ubi_ctrl", "-m", "0", "-d", "0"];
        run("ubiattach", &words(&fixed, header_offset))?;
        (self.last_offset, self.is_attached) = (header_offset, true);
        Ok(())
    }

    /// Attaches as the last time.
    pub(crate) fn attach_again(&mut self) -> io::Result<()> {
        self.attach(self.last_offset)
    }

    pub(crate) fn detach(&mut self) -> io::Result<()> {
        self.is_attached = false;
        run("ubidetach", &words(&["-d", "0"], None))
    }

    /// `ubimkvol` with all blocks that are free.
    pub(crate) fn make_volume(name: &str) -> io::Result<()> {
        run("ubimkvol", &words(&["/dev/ubi0", "-N", name, "-m"], None))
    }

    /// The only volume, which is made if the device has none, as a mount takes it.
    pub(crate) fn only_volume() -> io::Result<String> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir("/sys/class/ubi")? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("ubi0_") {
                names.push(std::fs::read_to_string(entry.path().join("name"))?.trim().to_owned());
            }
        }
        // The kernel lists them in no order that holds, and the message names them all.
        names.sort();
        match &names[..] {
            [] => Self::make_volume(VOLUME).map(|()| VOLUME.to_owned()),
            [name] => Ok(name.clone()),
            _ => Err(io::Error::other(format!(
                "the device has {} volumes, name one: {}",
                names.len(),
                names.join(", ")
            ))),
        }
    }
}
