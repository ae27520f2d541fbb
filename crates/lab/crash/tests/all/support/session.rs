//! Calls carried out on a file system and on the model, side by side.

use super::calls::Call;
use crash::{LOST_GROWTH, Tree, find_guarantee};
use fs_api::{Attributes, Caller, Errno, FileSystem, FileType, SpaceUse, Time};
use mount::{Driver, Kind, Machine, MountRequest, Mounted, SharedMount, UbiRequest, run};
use mtd::find_layout;
use nand::Chip;
use script::{Data, DataKind, Runner, Step, parse};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use vfs::{MemoryFileSystem, OpenFile, OpenOptions, Vfs};

pub(super) const CALLER: Caller =
    Caller { uid: 0, gid: 0, now: Time { seconds: 0, nanoseconds: 0 } };
/// Calls between two comparisons of all that is there.
const COMPARED_EVERY: usize = 150;
/// What JFFS2 finds where a program failed and no block was left for the nodes of its page.
pub(crate) const LOST_NODES: &str = "jffs2-lost-nodes";
/// What UBI finds where an erase failed and all blocks that were kept for bad ones are in use: the kernel turns
/// the device read-only, too ("no reserved/available physical eraseblocks", `erase_worker` of
/// drivers/mtd/ubi/wl.c).
const NO_RESERVE: &str = "ubi-no-reserve";

/// What a history met, so that a test can see that it met it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Met {
    pub(crate) calls: u64,
    pub(crate) refused_by_both: u64,
    pub(crate) out_of_space: u64,
    pub(crate) erases: u64,
    pub(crate) bad_blocks: u64,
    pub(crate) failures: u64,
    /// Histories that end where JFFS2 had no block left for nodes whose program failed.
    pub(crate) lost_nodes: u64,
    /// Histories that end where UBI had no block left for one that went bad.
    pub(crate) worn_out: u64,
    /// Times `df` was compared before and after a write.
    pub(crate) measured: u64,
    pub(crate) remounts: u64,
}

/// A history that went wrong: the number of the call, and how.
pub(crate) type Wrong = (usize, String);

/// Whether a call was refused because UBI had become read-only for want of good blocks.
pub(crate) fn is_worn_out(wrong: &str) -> bool {
    let is_refusal = wrong.contains("Erofs") || wrong.contains("EROFS");
    is_refusal && wrong.contains(NO_RESERVE)
}

/// Carries calls out from a mount to the next; the chip, and the number of the first call that is left.
pub(crate) fn carry_out(
    chip: Chip,
    kind: &'static Kind,
    profile: &'static str,
    calls: &[Call],
) -> Result<Met, Wrong> {
    let model = Rc::new(MemoryFileSystem::new(&CALLER));
    let calls: Rc<[Call]> = calls.into();
    let met = Rc::new(Cell::new(Met::default()));
    let loses_growth =
        find_guarantee(kind.name).is_some_and(|table| table.hazards.contains(&LOST_GROWTH));
    let mut chip = chip;
    let mut first = 0;
    while first < calls.len() {
        let was_cut = first > 0 && matches!(calls[first - 1], Call::Remount { is_clean: false });
        let (model, calls, counts) = (model.clone(), calls.clone(), met.clone());
        let driver = Driver::of_tool(find_layout("linux-large").expect("in the table"));
        let outcome = run(chip, &driver, first as u64, async move |machine| {
            // UBI keeps as many blocks for bad ones as on a chip of 64 MiB.
            let ubi = UbiRequest { chip_blocks: Some(512), ..UbiRequest::default() };
            let request = MountRequest { profile: Some(profile.into()), ubi, ..Default::default() };
            let mounted = machine.mount(kind, &request).await;
            let mounted = mounted.map_err(|error| (first, error.to_string()))?;
            let session = Session::new(&machine, mounted, model, counts, profile);
            let wrong = |wrong: String| (first, format!("after a mount: {wrong}"));
            if was_cut && loses_growth {
                session.give_up_growth().await.map_err(wrong)?;
            }
            session.compare().await.map_err(wrong)?;
            session.play(&calls, first).await
        });
        chip = outcome.chip;
        first = outcome.value.expect("the power is not cut")?;
    }
    let mut met = met.get();
    met.erases = chip.counters().erases;
    met.failures = chip.failures().0 + chip.failures().1;
    let blocks = 0..chip.geometry().blocks;
    met.bad_blocks = blocks.filter(|block| chip.is_bad(*block)).count() as u64;
    Ok(met)
}

pub(super) struct Session {
    pub(super) mounted: Mounted,
    model: Rc<MemoryFileSystem>,
    model_vfs: Rc<Vfs<MemoryFileSystem>>,
    runner: Runner<SharedMount>,
    model_runner: Runner<MemoryFileSystem>,
    open: RefCell<Vec<Option<(OpenFile, OpenFile)>>>,
    met: Rc<Cell<Met>>,
    /// The library does not hear of open files here, and deletes at once.
    keeps_open_files: bool,
}

impl Session {
    fn new(
        machine: &Machine,
        mounted: Mounted,
        model: Rc<MemoryFileSystem>,
        met: Rc<Cell<Met>>,
        profile: &str,
    ) -> Self {
        let model_vfs = Rc::new(Vfs::new(&machine.sim, model.clone()));
        Self {
            runner: Runner::new(&machine.sim, mounted.vfs.clone(), 0),
            model_runner: Runner::new(&machine.sim, model_vfs.clone(), 0),
            mounted,
            model,
            model_vfs,
            open: RefCell::new(vec![None, None, None]),
            met,
            keeps_open_files: profile != "yaffs-direct",
        }
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Met)) {
        let mut met = self.met.get();
        count(&mut met);
        self.met.set(met);
    }

    async fn play(&self, calls: &[Call], first: usize) -> Result<usize, Wrong> {
        for (number, call) in calls.iter().enumerate().skip(first) {
            let at = |wrong: String| (number, format!("{call}: {wrong}"));
            self.count(|met| met.calls += 1);
            if let Call::Remount { is_clean } = call {
                self.explained(self.end(*is_clean).await).await.map_err(at)?;
                return Ok(number + 1);
            }
            self.explained(self.call(call).await).await.map_err(at)?;
            if number % COMPARED_EVERY == 0 {
                self.explained(self.compare().await).await.map_err(at)?;
            }
        }
        self.explained(self.end(true).await).await.map_err(|wrong| (calls.len(), wrong))?;
        Ok(calls.len())
    }

    /// What went wrong, and what the file system has to say of its medium.
    async fn explained(&self, done: Result<(), String>) -> Result<(), String> {
        let Err(wrong) = done else { return Ok(()) };
        Err(format!("{wrong}; {:?}", self.mounted.file_system.findings().await))
    }

    async fn end(&self, is_clean: bool) -> Result<(), String> {
        self.count(|met| met.remounts += 1);
        for number in 0..3 {
            let Some((real, model)) = self.open.borrow_mut()[number].take() else { continue };
            // No file is closed where the power fails.
            if is_clean {
                told("close", self.mounted.vfs.close(&CALLER, real).await)?;
            }
            told("close", self.model_vfs.close(&CALLER, model).await)?;
        }
        self.compare().await?;
        let done = if is_clean {
            self.mounted.unmount().await.map_err(|error| format!("umount: {error}"))
        } else {
            told("sync", self.mounted.vfs.sync().await)
        };
        // Neither call tells of a buffer that could not be written (`jffs2_sync_fs` of fs/jffs2/super.c
        // leaves out what `jffs2_flush_wbuf_pad` returns): the next mount would be the first to show it.
        let findings = self.mounted.file_system.findings().await;
        if let Some(finding) = findings.iter().find(|finding| finding.code == LOST_NODES) {
            return Err(format!("{finding:?}"));
        }
        done.map_err(|wrong| format!("{wrong}; {findings:?}"))
    }

    /// A rename over another name of the same file: Linux does nothing, as the model; the library
    /// takes one of the names away.
    async fn joins_names(&self, line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        let ["rename", from, to] = words[..] else { return false };
        if self.keeps_open_files || from == to {
            return false;
        }
        let from = self.model_vfs.resolve(from.as_bytes()).await.ok();
        from.is_some() && from == self.model_vfs.resolve(to.as_bytes()).await.ok()
    }

    async fn call(&self, call: &Call) -> Result<(), String> {
        match call {
            Call::Line(line) if self.joins_names(line).await => Ok(()),
            Call::Line(line) => self.line(line).await,
            Call::Open(_) if !self.keeps_open_files => Ok(()),
            Call::Open(path) => self.open(path.as_bytes()).await,
            Call::WriteOpen { number, offset, length, seed } => {
                self.write_open(*number, *offset, *length, *seed).await
            }
            Call::Close { number } => {
                let Some((real, model)) = self.open.borrow_mut()[*number].take() else {
                    return Ok(());
                };
                told("close", self.mounted.vfs.close(&CALLER, real).await)?;
                told("close", self.model_vfs.close(&CALLER, model).await)
            }
            Call::RemoveAttribute { path, name } => {
                let (path, name) = (path.as_bytes(), name.as_bytes());
                let vfs = &self.mounted.vfs;
                let done = vfs.set_extended_attribute(&CALLER, path, name, None).await;
                if matches!(done, Err(Errno::Enospc | Errno::Eopnotsupp)) {
                    return Ok(());
                }
                let model = &self.model_vfs;
                let known = model.set_extended_attribute(&CALLER, path, name, None).await;
                self.same(done, known)
            }
            Call::Fill => self.fill().await,
            Call::Measure { seed } => self.measure(*seed).await,
            Call::Remount { .. } => Ok(()),
        }
    }

    fn same(&self, done: Result<(), Errno>, known: Result<(), Errno>) -> Result<(), String> {
        if done != known {
            return Err(format!("{done:?}, and the model says {known:?}"));
        }
        self.count(|met| met.refused_by_both += u64::from(done.is_err()));
        Ok(())
    }

    async fn line(&self, line: &str) -> Result<(), String> {
        let command =
            parse(line).map_err(|error| error.to_string())?.commands().next().ok_or("no line")?;
        let path = match &command.step {
            Step::Put { path, .. }
            | Step::Append { path, .. }
            | Step::Write { path, .. }
            | Step::RandomWrite { path, .. }
            | Step::Truncate { path, .. } => Some(path.clone()),
            _ => None,
        };
        let done = self.runner.step(&command.step).await.map(drop).map_err(|error| error.error);
        match (done, path) {
            (Err(Errno::Enospc), Some(path)) => {
                self.count(|met| met.out_of_space += 1);
                self.take_over(&command.step, &path).await
            }
            (Err(Errno::Enospc), None) => {
                self.count(|met| met.out_of_space += 1);
                Ok(())
            }
            (Err(Errno::Eopnotsupp), _) => Ok(()),
            (done, _) => {
                let known = self.model_runner.step(&command.step).await;
                self.same(done, known.map(drop).map_err(|error| error.error))
            }
        }
    }

    /// A write that found no space was done in part: each byte is old or new. The model follows.
    async fn take_over(&self, step: &Step, path: &[u8]) -> Result<(), String> {
        let old = read_file(&self.model_vfs, path).await.ok();
        let known = self.model_runner.step(step).await;
        if known.is_err() {
            return Err(format!("ENOSPC, and the model says {known:?}"));
        }
        let new = told("read", read_file(&self.model_vfs, path).await)?;
        let found = match read_file(&self.mounted.vfs, path).await {
            Ok(found) => found,
            Err(Errno::Enoent) if old.is_none() => {
                return told("unlink", self.model_vfs.unlink(&CALLER, path).await);
            }
            Err(error) => return Err(format!("after ENOSPC: {error}")),
        };
        let old = old.unwrap_or_default();
        let byte = |bytes: &[u8], at: usize| bytes.get(at).copied().unwrap_or(0);
        let is_strange = |(at, byte_found): (usize, &u8)| {
            ![byte(&old, at), byte(&new, at), 0].contains(byte_found)
        };
        if let Some(at) = found.iter().enumerate().position(is_strange) {
            return Err(format!("after ENOSPC: byte {at} is neither old nor new"));
        }
        if found.len() > old.len().max(new.len()) {
            return Err(format!("after ENOSPC: {} bytes", found.len()));
        }
        let options = OpenOptions { truncate: true, ..OpenOptions::default() };
        let file = told("open", self.model_vfs.open(&CALLER, path, options).await)?;
        told("write", self.model_vfs.write(&CALLER, &file, 0, &found).await)?;
        told("close", self.model_vfs.close(&CALLER, file).await)
    }

    async fn open(&self, path: &[u8]) -> Result<(), String> {
        let Some(place) = self.open.borrow().iter().position(Option::is_none) else {
            return Ok(());
        };
        let options = OpenOptions::default();
        let real = self.mounted.vfs.open(&CALLER, path, options).await;
        let model = self.model_vfs.open(&CALLER, path, options).await;
        match (real, model) {
            (Ok(real), Ok(model)) => {
                self.open.borrow_mut()[place] = Some((real, model));
                Ok(())
            }
            (real, model) => self.same(real.map(drop), model.map(drop)),
        }
    }

    async fn write_open(
        &self,
        number: usize,
        offset: u64,
        length: usize,
        seed: u64,
    ) -> Result<(), String> {
        let SpaceUse { free_blocks, blocks, .. } = self.mounted.file_system.space();
        // What a write that fails half-way does is looked at where files have names.
        if free_blocks < blocks / 4 {
            return Ok(());
        }
        let Some((real, model)) = self.open.borrow_mut()[number].take() else { return Ok(()) };
        let bytes = Data::new(DataKind::Incompressible, seed).take(length);
        let done = self.mounted.vfs.write(&CALLER, &real, offset, &bytes).await;
        let known = self.model_vfs.write(&CALLER, &model, offset, &bytes).await;
        self.open.borrow_mut()[number] = Some((real, model));
        self.same(done, known)
    }

    /// After a cut a file may have the length it had before it was made longer: the model follows.
    async fn give_up_growth(&self) -> Result<(), String> {
        let known = Tree::read(&*self.model).await.map_err(|(_, error)| error.to_string())?;
        for path in known.rows.keys() {
            let (Ok(real), Ok(model)) =
                (self.mounted.vfs.stat(path).await, self.model_vfs.stat(path).await)
            else {
                continue;
            };
            if model.kind != FileType::Regular || real.size_bytes >= model.size_bytes {
                continue;
            }
            let bytes = told("read", read_file(&self.model_vfs, path).await)?;
            if bytes[real.size_bytes as usize..].iter().all(|byte| *byte == 0) {
                let cut = self.model_vfs.truncate(&CALLER, path, real.size_bytes).await;
                told("truncate", cut)?;
            }
        }
        Ok(())
    }

    /// All that is there is the same, in open files without names as well.
    pub(super) async fn compare(&self) -> Result<(), String> {
        if self.mounted.file_system.writes_back() {
            // The tree is read below the page cache.
            told("sync", self.mounted.vfs.sync().await)?;
        }
        let read = |(path, error): (Vec<u8>, Errno)| {
            format!("{} cannot be read: {error}", String::from_utf8_lossy(&path))
        };
        let mut found = match Tree::read(&*self.mounted.file_system).await {
            Ok(found) => found,
            Err(error) => {
                let findings = self.mounted.file_system.findings().await;
                return Err(format!("{}; {findings:?}", read(error)));
            }
        };
        let mut known = Tree::read(&*self.model).await.map_err(read)?;
        // The file systems' own.
        found.rows.remove(b"lost+found".as_slice());
        found.rows.remove(b"".as_slice());
        known.rows.remove(b"".as_slice());
        if let Some(path) = found.first_difference(&known) {
            let describe =
                |tree: &Tree| tree.rows.get(&path).map_or("nothing".into(), |row| row.describe());
            return Err(format!(
                "{}: {}, and the model has {}; {:?}",
                String::from_utf8_lossy(&path),
                describe(&found),
                describe(&known),
                self.mounted.file_system.findings().await
            ));
        }
        if let Some(path) = found.dangling.iter().chain(&found.unreadable).next() {
            return Err(format!("{} leads nowhere", String::from_utf8_lossy(path)));
        }
        let open = self.open.take();
        for (real, model) in open.iter().flatten() {
            let found = told("read", read_open(&self.mounted.vfs, real).await)?;
            let known = told("read", read_open(&self.model_vfs, model).await)?;
            if found != known {
                return Err("an open file has other bytes than the model's".into());
            }
        }
        self.open.replace(open);
        Ok(())
    }
}

pub(super) fn told<T>(call: &str, done: Result<T, Errno>) -> Result<T, String> {
    done.map_err(|error| format!("{call}: {error}"))
}

async fn read_open<F: FileSystem + 'static>(
    vfs: &Vfs<F>,
    file: &OpenFile,
) -> Result<Vec<u8>, Errno> {
    let mut all = Vec::new();
    let mut piece = vec![0; 65_536];
    loop {
        let count = vfs.read(file, all.len() as u64, &mut piece).await?;
        if count == 0 {
            return Ok(all);
        }
        all.extend_from_slice(&piece[..count]);
    }
}

pub(super) async fn read_file<F: FileSystem + 'static>(
    vfs: &Vfs<F>,
    path: &[u8],
) -> Result<Vec<u8>, Errno> {
    let Attributes { kind, .. } = vfs.stat(path).await?;
    if kind != FileType::Regular {
        return Err(Errno::Einval);
    }
    let file = vfs.open(&CALLER, path, OpenOptions::default()).await?;
    let bytes = read_open(vfs, &file).await;
    let closed = vfs.close(&CALLER, file).await;
    bytes.and_then(|bytes| closed.map(|()| bytes))
}
