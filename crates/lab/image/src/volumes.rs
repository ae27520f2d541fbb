//! Volumes: of an image of UBI those it has, of a bare file system the one that it would be on.

use crate::{Image, ImageError};
use file_systems::mount_volume;
use mount::{Driver, Machine, MountError, MountRequest, Mounted};
use sim::Sim;
use std::rc::Rc;
use ubi::{LebNumber, Ubi, Volume, VolumeInfo, VolumeKind};
use ubifs::{MemoryVolume, NewFileSystem, SuperblockInfo, VolumeShape};

/// First bytes of a node of UBIFS.
const NODE_MAGIC: [u8; 4] = [0x31, 0x18, 0x10, 0x06];
/// Blank eraseblocks behind the end of a bare image, at most.
const MISSING_LEBS_MAX: u32 = 1 << 16;

/// What a volume holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holding {
    /// Data without a file system, with a CRC over each block: a static volume.
    Raw,
    /// A file system, whole or damaged.
    Ubifs,
    /// Nothing was ever written.
    Nothing,
    /// Data in which no eraseblock begins with a node of UBIFS.
    Other,
}

/// Eraseblocks of UBIFS in a row, as mkfs.ubifs writes them.
#[derive(Clone, Debug)]
pub(crate) struct BareVolume {
    shape: VolumeShape,
    bytes: Rc<Vec<u8>>,
}

impl BareVolume {
    pub(crate) fn new(bytes: Vec<u8>, superblock: &SuperblockInfo) -> Self {
        let leb_bytes = superblock.leb_bytes;
        let stored_lebs = bytes.len().div_ceil(leb_bytes as usize) as u32;
        // The volume is as large as the file system may grow to: what mkfs.ubifs writes has no room
        // for a collector.
        let leb_count = superblock.max_leb_count.max(superblock.leb_count);
        let leb_count = leb_count.clamp(stored_lebs, stored_lebs.saturating_add(MISSING_LEBS_MAX));
        let shape = VolumeShape {
            leb_bytes,
            leb_count,
            min_io_bytes: superblock.min_io_bytes,
            max_write_bytes: superblock.min_io_bytes,
        };
        Self { shape, bytes: Rc::new(bytes) }
    }

    fn open(&self, sim: &Sim) -> Rc<MemoryVolume> {
        let lebs = self.bytes.chunks(self.shape.leb_bytes as usize);
        // Blank eraseblocks are not mapped.
        let contents = lebs.map(|leb| leb.iter().any(|byte| *byte != 0xff).then(|| leb.to_vec()));
        Rc::new(MemoryVolume::with_contents(sim, self.shape, contents.collect()))
    }
}

/// The name of the file that holds a volume's data, if it is no file system.
pub(crate) fn raw_name(volume: &VolumeInfo) -> String {
    // Names of volumes may hold what names of files may not.
    let name = volume.name.replace(['/', '\0'], "_");
    format!("{name}.bin")
}

/// The driver's data of a static volume; and whether all of it is what its CRCs say.
pub(crate) async fn read_raw(ubi: &Rc<Ubi>, id: u32) -> Result<(Vec<u8>, bool), ubi::UbiError> {
    let volume = ubi.open_volume(id).await?;
    let mut is_sound = !volume.is_corrupted();
    let mut rest = volume.used_bytes();
    let mut data = Vec::new();
    for leb_number in LebNumber::default().run(volume.leb_count()) {
        // The last block of the data may be short.
        let bytes = rest.min(volume.leb_bytes().into()) as usize;
        if bytes == 0 {
            break;
        }
        let mut leb = vec![0; bytes];
        is_sound &= volume.read(leb_number, 0, &mut leb, true).await?.is_readable();
        data.extend_from_slice(&leb);
        rest -= bytes as u64;
    }
    Ok((data, is_sound))
}

impl Image {
    pub(crate) async fn mount(
        machine: &Machine,
        kind: &'static mount::Kind,
        bare: Option<&BareVolume>,
        request: &MountRequest,
    ) -> Result<Mounted, MountError> {
        match bare {
            Some(bare) => {
                let volume = bare.open(&machine.sim);
                mount_volume(machine, volume, request, NewFileSystem::default()).await
            }
            None => machine.mount(kind, request).await,
        }
    }

    /// Attaches the image to UBI, without writing to it, and carries out a job.
    ///
    /// # Errors
    /// [`ImageError::Mount`].
    pub fn run_ubi<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        job: impl FnOnce(Rc<Ubi>) -> F + 'static,
    ) -> Result<T, ImageError> {
        let (driver, request) = (Driver::of_tool(self.layout), self.request.clone());
        let outcome = mount::run(self.chip.clone(), &driver, 0, move |machine| async move {
            let ubi = machine.attach_ubi(&request).await?;
            let done = job(ubi).await;
            machine.detach_ubi();
            Ok(done)
        });
        outcome.value.expect("no power cut is asked for").map_err(|source| self.refused(source))
    }

    pub(crate) fn refused(&self, source: MountError) -> ImageError {
        ImageError::Mount { path: self.path.clone(), source: Box::new(source) }
    }

    /// Volumes and what they hold, by number; none without UBI.
    ///
    /// # Errors
    /// [`ImageError::Mount`].
    pub(crate) fn volumes(&self) -> Result<Vec<(VolumeInfo, Holding)>, ImageError> {
        if self.form.ubi.is_none() {
            return Ok(Vec::new());
        }
        let asked = self.request.ubi.volume.clone();
        self.run_ubi(move |ubi| async move {
            let mut volumes = Vec::new();
            for mut volume in ubi.info().volumes {
                if asked.as_ref().is_none_or(|name| *name == volume.name) {
                    let holding = look_into(&ubi, &mut volume).await;
                    volumes.push((volume, holding));
                }
            }
            volumes
        })
    }

    /// The static volume that is meant, if it is one; no other is known from the request alone.
    pub(crate) fn raw_volume(&self) -> Result<Option<VolumeInfo>, ImageError> {
        let volumes = self.volumes()?;
        match &volumes[..] {
            [(volume, Holding::Raw)] => Ok(Some(volume.clone())),
            [_, _, ..] => {
                let names: Vec<&str> = volumes.iter().map(|(volume, _)| &volume.name[..]).collect();
                let reason =
                    format!("the image has several volumes, name one: {}", names.join(", "));
                Err(ImageError::Option { option: "--volume", reason })
            }
            _ => Ok(None),
        }
    }
}

/// What the volume holds; a static one is read, to compare its CRCs.
async fn look_into(ubi: &Rc<Ubi>, volume: &mut VolumeInfo) -> Holding {
    let open = ubi.open_volume(volume.id).await;
    if volume.kind == VolumeKind::Static {
        volume.is_corrupted |= open.is_ok_and(|open| open.is_corrupted());
        return Holding::Raw;
    }
    if volume.mapped_lebs == 0 {
        return Holding::Nothing;
    }
    match open {
        Ok(open) if !holds_nodes(&open).await => Holding::Other,
        // What cannot be opened is reported by the mount.
        _ => Holding::Ubifs,
    }
}

/// Whether an eraseblock of a volume begins with a node of UBIFS. The superblock alone does not decide: of
/// a file system that lost it one cannot say that it is none.
async fn holds_nodes(volume: &Volume) -> bool {
    let mut magic = [0; 4];
    if volume.read(LebNumber::default(), 0, &mut magic, false).await.is_err() || magic == NODE_MAGIC
    {
        return true;
    }
    let mut start = vec![0; (volume.leb_bytes() as usize).min(ubifs::MAX_NODE_BYTES)];
    // Any of them may be the one that is left.
    let lebs = LebNumber::default().run(volume.leb_count());
    for leb in lebs.filter(|leb| volume.is_mapped(*leb)) {
        let read = volume.read(leb, 0, &mut start, false).await;
        if read.is_ok() && ubifs::is_whole_node(&start) {
            return true;
        }
    }
    false
}
