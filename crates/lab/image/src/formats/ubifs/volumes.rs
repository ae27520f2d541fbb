//! Volumes of an image of UBI, and what they hold.

use crate::chip::ChipImage;
use crate::error::ImageError;
use std::rc::Rc;
use ubi::{LebNumber, Ubi, Volume, VolumeInfo, VolumeKind};

/// First bytes of a node of UBIFS.
const NODE_MAGIC: [u8; 4] = [0x31, 0x18, 0x10, 0x06];

/// What a volume holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holding {
    /// Data without a file system, with a CRC over each block: a static volume.
    Raw,
    /// A file system, whole or damaged.
    Ubifs,
    /// Nothing was ever written.
    Nothing,
    /// Data in which no eraseblock begins with a node of UBIFS.
    Other,
}

/// The name of the file that holds a volume's data, if it is no file system.
pub(super) fn raw_name(volume: &VolumeInfo) -> String {
    // Names of volumes may hold what names of files may not.
    let name = volume.name.replace(['/', '\0'], "_");
    format!("{name}.bin")
}

/// The driver's data of a static volume; and whether all of it is what its CRCs say.
pub(super) async fn read_raw(ubi: &Rc<Ubi>, id: u32) -> Result<(Vec<u8>, bool), ubi::UbiError> {
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

/// Attaches the image to UBI, without writing to it, and carries out a job.
///
/// # Errors
/// [`ImageError::Mount`].
pub(super) fn run_ubi<T: 'static, F: Future<Output = T> + 'static>(
    image: &ChipImage,
    job: impl FnOnce(Rc<Ubi>) -> F + 'static,
) -> Result<T, ImageError> {
    let request = image.request.clone();
    image.run_machine(move |machine| async move {
        let ubi = machine.attach_ubi(&request).await?;
        let done = job(ubi).await;
        machine.detach_ubi();
        Ok(done)
    })
}

/// The volumes that are asked for and what they hold, by number.
///
/// # Errors
/// [`ImageError::Mount`].
pub(super) fn volumes(image: &ChipImage) -> Result<Vec<(VolumeInfo, Holding)>, ImageError> {
    let asked = image.request.ubi.volume.clone();
    run_ubi(image, move |ubi| async move {
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

/// The only volume, if it is a static one: the request alone cannot say so.
///
/// # Errors
/// [`ImageError::Mount`]; [`ImageError::Option`] if there are several volumes.
pub(super) fn raw_volume(image: &ChipImage) -> Result<Option<VolumeInfo>, ImageError> {
    let volumes = volumes(image)?;
    match &volumes[..] {
        [(volume, Holding::Raw)] => Ok(Some(volume.clone())),
        [_, _, ..] => {
            let names: Vec<&str> = volumes.iter().map(|(volume, _)| &volume.name[..]).collect();
            let reason = format!("the image has several volumes, name one: {}", names.join(", "));
            Err(ImageError::Option { option: "--volume", reason })
        }
        _ => Ok(None),
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
