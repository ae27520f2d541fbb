//! Writing headers, and loading from them what a scan left out.
//!
//! Source: `yaffs_guts.c` (`yaffs_update_oh`, `yaffs_check_obj_details_loaded`).
//!
//! May use: `device`, `format`, `header`, `objects`, `profile`, `statistics`, `tags`, `xattr`.

use crate::device::Device;
use crate::format::{
    LOST_AND_FOUND_NAME, LOST_PREFIX, OBJECT_LOST_AND_FOUND, OBJECT_ROOT, ObjectKind,
};
use crate::header::{HEADER_BYTES, Header};
use crate::objects::Body;
use crate::profile::ParentUpdate;
use crate::statistics::Finding;
use crate::tags::{EccResult, ExtraInfo, Tags};
use crate::xattr;
use fs_api::Errno;

/// A change of an extended attribute: name, and its value if it is not to be removed.
pub(crate) type XattrChange<'a> = (&'a [u8], Option<&'a [u8]>);

/// What a new header is for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Update<'a> {
    /// Name to be written; the old one is kept if there is none.
    pub(crate) name: Option<&'a [u8]>,
    /// Written also for the directories that have no header of their own.
    pub(crate) is_forced: bool,
    /// The file was shrunk, or deleted.
    pub(crate) is_shrink: bool,
    /// Object that this one replaces.
    pub(crate) shadows: u32,
    /// Extended attribute that changes with this header.
    pub(crate) xattr: Option<XattrChange<'a>>,
}

impl Device {
    /// Takes attributes, name and target from a header.
    pub(crate) fn apply_header(&mut self, object: u32, header: &Header) {
        let Some(object) = self.objects.get_mut(object) else { return };
        object.mode = header.mode;
        object.uid = header.uid;
        object.gid = header.gid;
        object.times = header.times;
        object.device = header.device;
        object.set_name(&header.name);
        if let (Body::Symlink(alias), Some(target)) = (&mut object.body, &header.alias) {
            *alias = Some(target.clone());
        }
    }

    /// Reads an object's header if a scan or a checkpoint left that for later.
    pub(crate) async fn load(&mut self, number: u32) {
        let Some(object) = self.objects.get(number) else { return };
        if !object.is_lazy || object.header_chunk == 0 {
            return;
        }
        let chunk = object.header_chunk;
        let mut data = self.chunk_room();
        let (_, result) = self.read_chunk(chunk, &mut data).await;
        if result == EccResult::Unfixed {
            self.report(Finding::Unreadable { chunk });
        }
        let header = Header::parse(&data, self.header_form());
        self.return_room(data);
        self.apply_header(number, &header);
        if let Some(object) = self.objects.get_mut(number) {
            object.is_lazy = false;
        }
    }

    /// Name of an object; long ones are read from the medium.
    pub(crate) async fn name_of(&mut self, number: u32) -> Vec<u8> {
        self.load(number).await;
        if number == OBJECT_LOST_AND_FOUND {
            return LOST_AND_FOUND_NAME.to_vec();
        }
        let Some(object) = self.objects.get(number) else { return Vec::new() };
        if let Some(name) = &object.short_name {
            return name.clone();
        }
        let chunk = object.header_chunk;
        if chunk != 0 {
            let mut data = self.chunk_room();
            self.read_chunk(chunk, &mut data).await;
            let name = Header::parse(&data, self.header_form()).name;
            self.return_room(data);
            // A slash would make a name that no call can ask for.
            if !name.is_empty() && !name.contains(&b'/') {
                return name;
            }
        }
        format!("{LOST_PREFIX}{number}").into_bytes()
    }

    /// Writes a new header of an object.
    ///
    /// # Errors
    /// [`Errno::Enoent`] without such an object, [`Errno::Enospc`] without a chunk, or without room for an
    /// extended attribute, [`Errno::Enodata`] if the one to be removed is not there.
    pub(crate) async fn update_header(
        &mut self,
        number: u32,
        update: Update<'_>,
    ) -> Result<(), Errno> {
        let Some(object) = self.objects.get(number) else { return Err(Errno::Enoent) };
        // Lost+found and the two directories of nameless objects are made at each mount; a header
        // is written only when the user changes their attributes.
        if object.is_fake && number != OBJECT_ROOT && !update.is_forced && update.xattr.is_none() {
            return Ok(());
        }
        // Before the old header is read: collecting may move it.
        self.check_collect(false).await;
        self.load(number).await;
        let form = self.header_form();
        let mut page = vec![0xff; self.chunk_bytes as usize];
        let Some(object) = self.objects.get(number) else { return Err(Errno::Enoent) };
        let (previous, kept_name) = (object.header_chunk, object.short_name.clone());
        let mut old_name = kept_name;
        if previous != 0 {
            // Read for the name alone, and for the extended attributes behind it.
            let (_, result) = self.read_chunk(previous, &mut page).await;
            if result == EccResult::Unfixed {
                page[HEADER_BYTES..].fill(0xff);
            } else {
                old_name = Some(Header::parse(&page, form).name);
            }
        }
        let name = match update.name {
            Some(name) if !name.is_empty() => name.to_vec(),
            _ => old_name.unwrap_or_default(),
        };
        let header = self.header_of(number, name, update)?;
        header.write(&mut page, form);
        let changed = match update.xattr {
            Some(change) => self.change_xattr(number, &mut page, change),
            None => Ok(()),
        };
        // The header is written whether or not the attribute could be set.
        let tags = self.header_tags(number, &header);
        // The reserve may be used only where an old header is freed in return; a new object must
        // fit into what users have.
        let chunk = self.write_new_chunk(&page, tags, previous != 0).await?;
        self.replace_header(number, chunk, update.is_shrink).await;
        changed
    }

    fn header_of(&self, number: u32, name: Vec<u8>, update: Update<'_>) -> Result<Header, Errno> {
        let object = self.objects.get(number).ok_or(Errno::Enoent)?;
        let size = object.file().map(|file| if object.is_gone() { 0 } else { file.stored_bytes });
        let alias = match &object.body {
            Body::Symlink(alias) => Some(alias.clone().unwrap_or_else(|| b"no alias".to_vec())),
            _ => None,
        };
        let equivalent = match object.body {
            Body::HardLink(equivalent) => Some(equivalent),
            _ => None,
        };
        Ok(Header {
            kind: object.kind().number(),
            parent: object.parent.unwrap_or_default(),
            name,
            mode: object.mode,
            uid: object.uid,
            gid: object.gid,
            times: object.times,
            size_bytes: size,
            equivalent,
            alias,
            device: object.device,
            shadows: update.shadows,
            is_shrink: update.is_shrink,
        })
    }

    fn header_tags(&mut self, number: u32, header: &Header) -> Tags {
        if let Some(object) = self.objects.get_mut(number) {
            object.serial = object.serial.wrapping_add(1);
        }
        // The tags have 32 bits for it. A larger file gets a header without extra info, and a scan
        // has to read the page.
        let size_or_equivalent = match (header.size_bytes, header.equivalent) {
            (Some(size), _) => u32::try_from(size).ok(),
            (None, Some(equivalent)) => Some(equivalent),
            (None, None) => Some(0),
        };
        let extra = size_or_equivalent.map(|size_or_equivalent| ExtraInfo {
            parent: header.parent,
            kind: header.kind,
            is_shrink: header.is_shrink,
            shadows: header.shadows > 0,
            size_or_equivalent,
        });
        Tags::header(number, extra)
    }

    fn change_xattr(
        &mut self,
        number: u32,
        page: &mut [u8],
        (name, value): XattrChange<'_>,
    ) -> Result<(), Errno> {
        let area = &mut page[HEADER_BYTES..];
        let changed = match value {
            Some(value) => xattr::set(area, name, value),
            None => xattr::remove(area, name),
        };
        if let Some(object) = self.objects.get_mut(number) {
            object.has_xattrs = Some(xattr::has_any(area));
        }
        changed
    }

    /// The new header is on the medium: the old one is freed.
    async fn replace_header(&mut self, number: u32, chunk: u32, is_shrink: bool) {
        let is_cached = self.cache.is_object_dirty(number);
        let Some(object) = self.objects.get_mut(number) else { return };
        let previous = std::mem::replace(&mut object.header_chunk, chunk);
        debug_assert_ne!(
            previous, chunk,
            "the new header of object {number} has a place of its own"
        );
        // A file with dirty cached chunks stays dirty: its size on the medium is not its last.
        if !is_cached {
            object.is_dirty = false;
        }
        // The shrinking header must not go before what it makes void.
        if is_shrink {
            let block = self.block_of(chunk);
            self.blocks.get_mut(block).has_shrink_header = true;
        }
        self.delete_chunk(previous).await;
    }

    /// A name in a directory came or went.
    ///
    /// # Errors
    /// None: a directory whose header cannot be written keeps its old time.
    pub(crate) async fn update_parent(&mut self, directory: u32) {
        let now = self.now;
        let Some(object) = self.objects.get_mut(directory) else { return };
        object.times[1] = now;
        object.times[2] = now;
        object.is_dirty = true;
        match self.profile.parent_update {
            ParentUpdate::Never => {}
            ParentUpdate::Immediate => {
                // The change itself is on the medium; times of a directory are not worth an error.
                let _ = self.update_header(directory, Update::default()).await;
            }
            ParentUpdate::Deferred => self.objects.note_dirty_directory(directory),
        }
    }

    /// Writes the headers of directories that wait for it.
    pub(crate) async fn update_dirty_directories(&mut self) {
        while let Some(directory) = self.objects.take_dirty_directory() {
            if self.objects.get(directory).is_some_and(|object| object.is_dirty) {
                // No caller waits for it; on an error the header stays as it was.
                let _ = self.update_header(directory, Update::default()).await;
            }
        }
    }

    /// The page area behind a header.
    pub(crate) async fn xattr_area(&mut self, number: u32) -> Option<Vec<u8>> {
        let object = self.objects.get(number)?;
        if object.header_chunk == 0 || object.has_xattrs == Some(false) {
            return None;
        }
        let chunk = object.header_chunk;
        let mut page = self.chunk_room();
        self.read_chunk(chunk, &mut page).await;
        let area = &page[HEADER_BYTES..];
        let has_any = xattr::has_any(area);
        let area = has_any.then(|| area.to_vec());
        self.return_room(page);
        if let Some(object) = self.objects.get_mut(number) {
            object.has_xattrs = Some(has_any);
        }
        area
    }

    /// The object that a hard link names, or the object itself.
    pub(crate) fn equivalent(&self, number: u32) -> Option<u32> {
        match self.objects.get(number)?.body {
            Body::HardLink(equivalent) => self.objects.get(equivalent).map(|object| object.number),
            _ => Some(number),
        }
    }

    /// Kind that `stat` tells of an object.
    pub(crate) fn is_kind(&self, number: u32, kind: ObjectKind) -> bool {
        self.objects.get(number).is_some_and(|object| object.kind() == kind)
    }
}
