//! The script language of the golden data: one group of system calls a line, over a small stand-in
//! for the layer above (names and pages that were looked at are remembered until they are dropped).

use super::ROOT;
use fs_api::{
    Attributes, Caller, Changes, Errno, FileSystem, InodeNumber, NewInode, PAGE_BYTES, Time,
};
use mtd::Mtd;
use nand::{Chip, Counters};
use rustc_hash::{FxHashMap, FxHashSet};
use script::{Data, DataKind, Xorshift};
use sim::{Cpus, Sim};
use std::rc::Rc;
use vfs::unescape_path;
use yaffs2::{MountOptions, Yaffs2};

/// The stream of a kind, by its letter.
pub(crate) fn stream(kind: &str, seed: u64) -> Data {
    Data::new(DataKind::from_letter(kind).expect("a kind of data"), seed)
}

fn number(text: &str) -> u64 {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1024),
        Some(b'm') => (&text[..text.len() - 1], 1024 * 1024),
        _ => (text, 1),
    };
    digits.parse::<u64>().unwrap_or_else(|_| panic!("{text}")) * unit
}

fn octal(text: &str) -> u32 {
    u32::from_str_radix(text, 8).expect("a mode")
}

fn unescape(text: &str) -> Vec<u8> {
    unescape_path(text).expect("an escaped path")
}

/// Where and how a script runs.
pub(crate) struct Shell {
    pub(crate) sim: Sim,
    pub(crate) mtd: Rc<Mtd>,
    pub(crate) cpus: Rc<Cpus>,
    pub(crate) options: MountOptions,
    /// Names and pages are remembered, as by a kernel.
    pub(crate) has_caches: bool,
    pub(crate) has_background: bool,
    pub(crate) fs: Option<Rc<Yaffs2>>,
    /// A call that fails ends the test, with its line.
    pub(crate) is_strict: bool,
    pub(crate) phases: Vec<(String, Counters)>,
    /// Seconds added to the clock with every line.
    pub(crate) now: i64,
    names: FxHashMap<(InodeNumber, Vec<u8>), InodeNumber>,
    pages: FxHashSet<(InodeNumber, u64)>,
    phase: Option<(String, Counters)>,
    saved: Option<Chip>,
}

impl Shell {
    pub(crate) fn new(sim: Sim, mtd: Rc<Mtd>, cpus: Rc<Cpus>, options: MountOptions) -> Self {
        let has_caches = options.profile.name != "yaffs-direct";
        let has_background = options.profile.has_background;
        Self {
            sim,
            mtd,
            cpus,
            options,
            has_caches,
            has_background,
            fs: None,
            is_strict: true,
            phases: Vec::new(),
            now: ROOT.now.seconds,
            names: FxHashMap::default(),
            pages: FxHashSet::default(),
            phase: None,
            saved: None,
        }
    }

    fn fs(&self) -> Rc<Yaffs2> {
        self.fs.clone().expect("mounted")
    }

    fn caller(&self) -> Caller {
        Caller { now: Time::from_seconds(self.now), ..ROOT }
    }

    fn counters(&self) -> Counters {
        self.mtd.with_chip(|chip| chip.counters())
    }

    fn end_phase(&mut self, next: &str) {
        let now = self.counters();
        if let Some((name, before)) = self.phase.take() {
            self.phases.push((name, now - before));
        }
        if next != "-" {
            self.phase = Some((next.to_owned(), now));
        }
    }

    pub(crate) fn drop_caches(&mut self) {
        self.names.clear();
        self.pages.clear();
    }

    pub(crate) async fn mount(&mut self) {
        let (cpus, mtd) = (self.cpus.clone(), self.mtd.clone());
        let now = Time::from_seconds(self.now);
        let fs = Yaffs2::mount(&self.sim, cpus, mtd, self.options.clone(), now).await;
        let fs = fs.expect("mounted");
        if self.has_background {
            let background = fs.clone();
            self.sim.spawn(async move { background.run_background().await });
        }
        self.fs = Some(fs);
    }

    pub(crate) async fn unmount(&mut self) {
        if let Some(fs) = self.fs.take() {
            fs.unmount().await.expect("unmounted");
        }
        self.drop_caches();
    }

    async fn find(&mut self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber, Errno> {
        let key = (directory, name.to_vec());
        if self.has_caches
            && let Some(inode) = self.names.get(&key)
        {
            return Ok(*inode);
        }
        let inode = self.fs().lookup(directory, name).await?;
        self.names.insert(key, inode);
        Ok(inode)
    }

    /// The directory of a path, and the last name of it.
    async fn parent(&mut self, path: &[u8]) -> Result<(InodeNumber, Vec<u8>), Errno> {
        let mut directory = self.fs().root();
        let mut names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        let last = names.pop().expect("a name");
        for name in names {
            directory = self.find(directory, name).await?;
        }
        Ok((directory, last.to_vec()))
    }

    pub(crate) async fn resolve(&mut self, path: &[u8]) -> Result<InodeNumber, Errno> {
        if path == b"." {
            return Ok(self.fs().root());
        }
        let (directory, name) = self.parent(path).await?;
        self.find(directory, &name).await
    }

    async fn stat(&self, inode: InodeNumber) -> Result<Attributes, Errno> {
        self.fs().attributes(inode).await
    }

    async fn open_new(&mut self, path: &[u8], mode: u32) -> Result<InodeNumber, Errno> {
        let (directory, name) = self.parent(path).await?;
        if let Ok(inode) = self.find(directory, &name).await {
            let to = Changes { size_bytes: Some(0), ..Changes::default() };
            self.fs().change(&self.caller(), inode, &to).await?;
            self.pages.retain(|(of, _)| *of != inode);
            return Ok(inode);
        }
        let new = NewInode::Regular(mode);
        let inode = self.fs().make(&self.caller(), directory, &name, new).await?;
        self.names.insert((directory, name), inode);
        Ok(inode)
    }

    async fn write_at(
        &mut self,
        inode: InodeNumber,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Errno> {
        let (mut at, mut rest) = (offset, bytes);
        let mut page = Box::new([0; PAGE_BYTES]);
        while !rest.is_empty() {
            let (index, start) = (at / PAGE_BYTES as u64, at as usize % PAGE_BYTES);
            let count = rest.len().min(PAGE_BYTES - start);
            // The page is read first unless it is there, also if all of it is overwritten.
            if self.has_caches && self.pages.insert((inode, index)) {
                self.fs().read_page(inode, index, &mut page).await?;
            }
            page[start..start + count].copy_from_slice(&rest[..count]);
            let part = start..start + count;
            self.fs().write_page(&self.caller(), inode, index, &page, part).await?;
            at += count as u64;
            rest = &rest[count..];
        }
        Ok(())
    }

    /// Writes in calls of `call` bytes, with fsync as the words say, and closes.
    async fn write_calls(
        &mut self,
        inode: InodeNumber,
        mut offset: u64,
        mut length: u64,
        call: u64,
        stream: &mut Data,
        sync: &str,
    ) -> Result<(), Errno> {
        let mut result = Ok(());
        while length > 0 {
            let count = length.min(call);
            let bytes = stream.take(count as usize);
            result = self.write_at(inode, offset, &bytes).await;
            if result.is_err() {
                break;
            }
            if sync == "fsynceach" {
                self.fs().fsync(&self.caller(), inode).await?;
            }
            offset += count;
            length -= count;
        }
        if sync == "fsync" && result.is_ok() {
            result = self.fs().fsync(&self.caller(), inode).await;
        }
        let flushed = self.fs().flush(&self.caller(), inode).await;
        result.and(flushed)
    }

    pub(crate) async fn remove(&mut self, path: &[u8]) -> Result<(), Errno> {
        let (directory, name) = self.parent(path).await?;
        let inode = self.find(directory, &name).await?;
        self.fs().unlink(&self.caller(), directory, &name).await?;
        self.names.remove(&(directory, name));
        self.release(inode).await
    }

    /// Forgets an inode without names.
    async fn release(&mut self, inode: InodeNumber) -> Result<(), Errno> {
        let is_gone = self.stat(inode).await.map_or(true, |stat| stat.links == 0);
        if is_gone {
            self.pages.retain(|(of, _)| *of != inode);
            self.names.retain(|_, of| *of != inode);
            self.fs().forget(inode).await?;
        }
        Ok(())
    }

    async fn change(&mut self, path: &str, to: Changes) -> Result<(), Errno> {
        let inode = self.resolve(&unescape(path)).await?;
        if to.size_bytes.is_some() {
            self.pages.retain(|(of, _)| *of != inode);
        }
        self.fs().change(&self.caller(), inode, &to).await
    }

    async fn make(&mut self, path: &[u8], new: NewInode<'_>) -> Result<(), Errno> {
        let (directory, name) = self.parent(path).await?;
        if self.find(directory, &name).await.is_ok() {
            return Err(Errno::Eexist);
        }
        let inode = self.fs().make(&self.caller(), directory, &name, new).await?;
        self.names.insert((directory, name), inode);
        Ok(())
    }

    async fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        let from = self.parent(from).await?;
        let to = self.parent(to).await?;
        let moved = self.find(from.0, &from.1).await?;
        let target = self.find(to.0, &to.1).await.ok();
        if target == Some(moved) {
            return Ok(());
        }
        let caller = self.caller();
        self.fs().rename(&caller, (from.0, &from.1), (to.0, &to.1)).await?;
        self.names.remove(&from);
        self.names.insert(to, moved);
        match target {
            Some(target) => self.release(target).await,
            None => Ok(()),
        }
    }

    /// Runs every line of a script; phases are counted.
    pub(crate) async fn run(&mut self, script: &str) {
        for line in script.lines() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let done = self.line(line).await;
            assert!(done.is_ok() || !self.is_strict, "{line}: {done:?}");
        }
        self.end_phase("-");
    }

    /// Makes the calls of a line, then compares the mount's memory with itself.
    pub(crate) async fn line(&mut self, line: &str) -> Result<(), Errno> {
        let done = self.call(line).await;
        if let Some(fs) = &self.fs {
            fs.check_invariants().await;
        }
        done
    }

    #[expect(clippy::too_many_lines, reason = "one arm an operation")]
    async fn call(&mut self, line: &str) -> Result<(), Errno> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let word = |at: usize| words.get(at).copied().unwrap_or_default();
        let path = || unescape(word(1));
        match words[0] {
            "put" => self.put(&path(), &words[2..]).await?,
            "putn" | "unlinkn" => {
                let (first, end) = (number(word(2)), number(word(3)));
                for index in first..end {
                    let path = [&path()[..], format!("{index:05}").as_bytes()].concat();
                    if words[0] == "unlinkn" {
                        self.remove(&path).await?;
                        continue;
                    }
                    let seed = (number(word(8)) + index).to_string();
                    let mut rest = words[4..].to_vec();
                    rest[4] = &seed;
                    self.put(&path, &rest).await?;
                }
            }
            "append" => {
                let inode = self.resolve(&path()).await?;
                let offset = self.stat(inode).await?.size_bytes;
                let mut stream = stream(word(4), number(word(5)));
                let (length, call) = (number(word(2)), number(word(3)));
                self.write_calls(inode, offset, length, call, &mut stream, word(6)).await?;
            }
            "write" => {
                let inode = self.resolve(&path()).await?;
                let mut stream = stream(word(5), number(word(6)));
                let (offset, length, call) = (number(word(2)), number(word(3)), number(word(4)));
                self.write_calls(inode, offset, length, call, &mut stream, word(7)).await?;
            }
            "rwrite" => self.random_writes(&path(), &words[2..]).await?,
            "read" => {
                let inode = self.resolve(&path()).await?;
                let size = self.stat(inode).await?.size_bytes;
                let mut page = Box::new([0; PAGE_BYTES]);
                for index in 0..size.div_ceil(PAGE_BYTES as u64) {
                    if !self.has_caches || self.pages.insert((inode, index)) {
                        self.fs().read_page(inode, index, &mut page).await?;
                    }
                }
            }
            "fsync" | "fdatasync" => {
                let inode = self.resolve(&path()).await?;
                self.fs().fsync(&self.caller(), inode).await?;
            }
            "truncate" => {
                let size_bytes = Some(number(word(2)));
                self.change(word(1), Changes { size_bytes, ..Changes::default() }).await?;
            }
            "chmod" => {
                let permissions = Some(octal(word(2)));
                self.change(word(1), Changes { permissions, ..Changes::default() }).await?;
            }
            "chown" => {
                let (uid, gid) = (Some(number(word(2)) as u32), Some(number(word(3)) as u32));
                self.change(word(1), Changes { uid, gid, ..Changes::default() }).await?;
            }
            "utime" => {
                let time = |at| Some(Time::from_seconds(number(word(at)).cast_signed()));
                let to = Changes { accessed: time(2), modified: time(3), ..Changes::default() };
                self.change(word(1), to).await?;
            }
            "rename" => self.rename(&path(), &unescape(word(2))).await?,
            "link" => {
                let inode = self.resolve(&path()).await?;
                let (directory, name) = self.parent(&unescape(word(2))).await?;
                self.fs().link(&self.caller(), inode, directory, &name).await?;
                self.names.insert((directory, name), inode);
            }
            "symlink" => self.make(&unescape(word(2)), NewInode::Symlink(&path())).await?,
            "unlink" | "rmdir" => self.remove(&path()).await?,
            "mkdir" => self.make(&path(), NewInode::Directory(octal(word(2)))).await?,
            "mknod" => {
                let kind = match word(3) {
                    "c" => 0o020_000,
                    "b" => 0o060_000,
                    "p" => 0o010_000,
                    _ => 0o140_000,
                };
                let part = |at| if word(at).is_empty() { 0 } else { number(word(at)) as u32 };
                let new = NewInode::Special(kind | octal(word(2)), (part(4), part(5)));
                self.make(&path(), new).await?;
            }
            "setxattr" => {
                let inode = self.resolve(&path()).await?;
                let value: Vec<u8> = (0..word(3).len() / 2)
                    .map(|at| u8::from_str_radix(&word(3)[2 * at..2 * at + 2], 16).expect("hex"))
                    .collect();
                let (caller, name) = (self.caller(), word(2).as_bytes());
                self.fs().set_extended_attribute(&caller, inode, name, Some(&value)).await?;
            }
            "sync" => self.fs().sync().await?,
            "mount" => self.mount().await,
            "umount" => self.unmount().await,
            "drop" => self.drop_caches(),
            "settle" => self.sim.sleep(number(word(1)) * 1_000_000).await,
            "phase" => self.end_phase(word(1)),
            "snap" | "save" => self.saved = Some(self.mtd.with_chip(|chip| chip.clone())),
            "load" => {
                let saved = self.saved.clone().expect("saved");
                self.mtd.with_chip(|chip| *chip = saved);
            }
            "log" | "workload" | "cmd" | "end" => {}
            other => panic!("{other}"),
        }
        Ok(())
    }

    /// MODE LEN CHUNK KIND SEED, and how to sync.
    async fn put(&mut self, path: &[u8], words: &[&str]) -> Result<(), Errno> {
        let inode = self.open_new(path, octal(words[0])).await?;
        let mut stream = stream(words[3], number(words[4]));
        let sync = words.get(5).copied().unwrap_or_default();
        let (length, call) = (number(words[1]), number(words[2]));
        self.write_calls(inode, 0, length, call, &mut stream, sync).await
    }

    /// COUNT BLK FILESIZE OSEED KIND DSEED, and how to sync.
    async fn random_writes(&mut self, path: &[u8], words: &[&str]) -> Result<(), Errno> {
        let inode = self.resolve(path).await?;
        let (block, size) = (number(words[1]), number(words[2]));
        let mut offsets = Xorshift::new(number(words[3]));
        let mut stream = stream(words[4], number(words[5]));
        let sync = words.get(6).copied().unwrap_or_default();
        for _ in 0..number(words[0]) {
            let offset = (offsets.next_number() >> 33) % (size / block) * block;
            let bytes = stream.take(block as usize);
            self.write_at(inode, offset, &bytes).await?;
            if sync == "fsynceach" {
                self.fs().fsync(&self.caller(), inode).await?;
            }
        }
        if sync == "fsync" {
            self.fs().fsync(&self.caller(), inode).await?;
        }
        self.fs().flush(&self.caller(), inode).await
    }
}
