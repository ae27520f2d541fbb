//! What the tests share: media, simulations, trees, fsck.vfat.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod work;

use block_medium::{BlockMedium, MemoryMedium};
use board::Board;
use fat::{Fat, FormatOptions, MountError, MountOptions, Profile, check, find_profile, format};
use fs_api::{Caller, FileSystem, FileType, InodeNumber, PAGE_BYTES, Time};
use sim::{Cpus, Sim, Simulation};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::rc::Rc;
use vfs::Vfs;

pub(crate) const CALLER: Caller = Caller { uid: 0, gid: 0, now: Time::from_seconds(1_700_000_000) };

pub(crate) fn profile() -> &'static Profile {
    find_profile("linux-6.12").expect("in the table")
}

/// What a test has at hand inside the simulation.
#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) sim: Sim,
    pub(crate) cpus: Rc<Cpus>,
    pub(crate) medium: Rc<MemoryMedium>,
}

impl Bench {
    pub(crate) async fn try_mount(&self, options: MountOptions) -> Result<Fat, MountError> {
        let medium: Rc<dyn BlockMedium> = self.medium.clone();
        Fat::mount(&self.sim, self.cpus.clone(), medium, options).await
    }

    pub(crate) async fn mount(&self, options: MountOptions) -> Fat {
        self.try_mount(options).await.expect("it mounts")
    }

    /// A mount under a kernel that has a page cache.
    pub(crate) async fn kernel(&self, options: MountOptions) -> Vfs<Fat> {
        self.kernel_over(self.mount(options).await)
    }

    pub(crate) fn kernel_over(&self, fs: Fat) -> Vfs<Fat> {
        let mut board = Board::without_costs();
        board.kernel = "6.12".into();
        board.available_bytes = 64 << 20;
        board.memory_bytes = 128 << 20;
        Vfs::cached(&self.sim, &self.cpus, &Rc::new(board), Rc::new(fs))
    }
}

pub(crate) fn options() -> MountOptions {
    MountOptions::new(profile())
}

/// Runs a job over a medium; gives the medium back, and whether the job came to its end.
pub(crate) fn run<F: Future<Output = ()> + 'static>(
    medium: MemoryMedium,
    job: impl FnOnce(Bench) -> F,
) -> (Rc<MemoryMedium>, bool) {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let cpus = Rc::new(Cpus::new(&sim, 1, 10_000_000));
    let medium = Rc::new(medium);
    let task = sim.spawn(job(Bench { sim: sim.clone(), cpus, medium: medium.clone() }));
    simulation.run();
    // The flusher waits for ever; what counts is that the job came to its end.
    (medium, task.is_finished())
}

/// A medium with an empty volume, as `mkfs.vfat` makes it.
pub(crate) fn formatted(size_bytes: u64, options: FormatOptions) -> MemoryMedium {
    let medium = MemoryMedium::new(512, size_bytes);
    let (medium, is_done) = run(medium, move |bench| async move {
        format(&*bench.medium, &options).await.expect("it is made");
    });
    assert!(is_done);
    medium.after_cut(None)
}

/// What a name leads to: the bytes of a file, or a directory and its links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    File(Vec<u8>),
    Directory(u32),
    Unreadable,
}

/// All names of a tree.
pub(crate) async fn tree<F: FileSystem>(fs: &F) -> BTreeMap<String, Found> {
    let mut found = BTreeMap::new();
    let mut rest = vec![(String::new(), fs.root())];
    while let Some((path, inode)) = rest.pop() {
        for entry in fs.read_directory(inode).await.expect("it lists") {
            let path = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
            let Ok(shown) = fs.attributes(entry.inode).await else {
                found.insert(path, Found::Unreadable);
                continue;
            };
            let here = if shown.kind == FileType::Directory {
                rest.push((path.clone(), entry.inode));
                Found::Directory(shown.links)
            } else {
                read(fs, entry.inode, shown.size_bytes).await.map_or(Found::Unreadable, Found::File)
            };
            found.insert(path, here);
        }
    }
    found
}

async fn read<F: FileSystem>(fs: &F, inode: InodeNumber, bytes: u64) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let mut page = [0; PAGE_BYTES];
    for number in 0..bytes.div_ceil(PAGE_BYTES as u64) {
        fs.read_page(inode, number, &mut page).await.ok()?;
        content.extend_from_slice(&page);
    }
    content.truncate(bytes as usize);
    Some(content)
}

/// Names that differ, and how, in few words.
pub(crate) fn assert_same(
    label: &str,
    found: &BTreeMap<String, Found>,
    expected: &BTreeMap<String, Found>,
) {
    let say = |found: Option<&Found>| match found {
        None => "nothing".to_owned(),
        Some(Found::File(bytes)) => format!("{} bytes", bytes.len()),
        Some(other) => format!("{other:?}"),
    };
    let mut names: Vec<_> = found.keys().chain(expected.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let differences: Vec<_> = names
        .into_iter()
        .filter(|name| found.get(*name) != expected.get(*name))
        .map(|name| {
            let at = match (found.get(name), expected.get(name)) {
                (Some(Found::File(found)), Some(Found::File(expected))) => {
                    found.iter().zip(expected).position(|(one, other)| one != other)
                }
                _ => None,
            };
            format!("{name}: {}, not {}; {at:?}", say(found.get(name)), say(expected.get(name)))
        })
        .collect();
    assert!(differences.is_empty(), "{label}:\n{}", differences.join("\n"));
}

/// Where a test keeps a file; the name must be its own.
pub(crate) fn temporary(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

pub(crate) fn save(medium: &MemoryMedium, name: &str) -> PathBuf {
    let path = temporary(name);
    let mut file = std::fs::File::create(&path).expect("a place for it");
    medium.save(&mut file).expect("it is saved");
    path
}

/// Run a program of dosfstools; none if it is not installed, which `make test` says by name.
pub(crate) fn dosfstools(command: &mut Command) -> Option<Output> {
    match command.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        output => Some(output.expect("it can be run")),
    }
}

/// What `fsck.vfat -n` says of a medium; none if it is content, or not there.
pub(crate) fn fsck(medium: &MemoryMedium, name: &str) -> Option<String> {
    let path = save(medium, name);
    let output = dosfstools(Command::new("fsck.vfat").arg("-n").arg("-V").arg(&path));
    std::fs::remove_file(&path).expect("it was there");
    let output = output?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (!output.status.success()).then_some(text)
}

/// A volume that was unmounted has nothing wrong, by our own check and by fsck.vfat.
pub(crate) fn assert_clean(medium: &Rc<MemoryMedium>, label: &str) {
    let name = format!("{}.img", label.replace([' ', ','], "-"));
    assert_eq!(fsck(medium, &name), None, "{label}");
    let label = label.to_owned();
    let name = label.clone();
    let (_, is_done) = run(medium.after_cut(None), move |bench| async move {
        let found = check(&*bench.medium).await.expect("it is read");
        assert!(found.is_clean(), "{label}: {found:?}");
    });
    assert!(is_done, "{name}");
}
