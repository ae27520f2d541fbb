//! The script that made a golden image, carried out here: the same tree, and the same checkpoints as
//! the kernel's, block for block.

use crate::support;

use block_medium::{Bio, MemoryMedium};
use fs_api::FileSystem;
use nilfs2::{FormatOptions, MountOptions, Nilfs2, PROFILES, format};
use script::{Runner, parse};
use std::cell::RefCell;
use std::rc::Rc;
use support::{assert_same, checkpoints, load, manifest, profile, read_only, run, text};
use vfs::Vfs;

/// The second half of the script was carried out inside this directory.
const DIRECTORY: &str = "two";
/// The script ends with this checkpoint; one file of the image was changed after it.
const COMPARED: u64 = 74;

/// The script with all paths from the root of the mount.
fn from_root(script: &str) -> String {
    let (first, second) = script.split_once("# --- part 2").expect("two parts");
    let mut lines = vec![first.to_owned(), format!("mkdir {DIRECTORY} 755")];
    for line in second.lines().skip(1) {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let paths: &[usize] = match words[0].as_str() {
            "rename" | "link" => &[1, 2],
            "symlink" => &[2],
            "sync" | "settle" => &[],
            _ => &[1],
        };
        for index in paths {
            words[*index] = format!("{DIRECTORY}/{}", words[*index]);
        }
        lines.push(words.join(" "));
    }
    lines.join("\n")
}

/// Carries the script out on an empty file system of the golden image's size.
fn replay(options: MountOptions) -> (MemoryMedium, Vec<Bio>) {
    let script = parse(&from_root(&text("clean.ops.zst"))).expect("a script");
    let (medium, is_done) = run(MemoryMedium::new(4096, 128 << 20), move |bench| async move {
        let fresh = FormatOptions { blocks_per_segment: 512, ..FormatOptions::default() };
        format(&*bench.medium, &fresh).await.expect("it is made");
        bench.medium.take_bios();
        let fs = bench.mount(options).await;
        let vfs = Rc::new(Vfs::new(&bench.sim, Rc::new(fs.clone())));
        let runner = Runner::new(&bench.sim, vfs, 1_700_000_000);
        for command in script.commands() {
            runner.step(&command.step).await.expect("it succeeds");
        }
        let label = options.profile.name;
        assert_eq!(fs.check().await.expect("it is read"), [], "{label}");
        for snapshot in [4, 9] {
            fs.change_checkpoint(snapshot, true).await.expect("it is there");
        }
        fs.unmount().await.expect("it unmounts");
        assert_eq!(fs.findings(), [], "{label}");
    });
    assert!(is_done);
    let bios = medium.take_bios();
    (medium.after_cut(None), bios)
}

/// Number, mode, blocks and inodes of all checkpoints.
async fn listing(fs: &Nilfs2) -> Vec<String> {
    let all = fs.checkpoints().await.expect("they are listed");
    let line = |checkpoint: &nilfs2::records::Checkpoint| {
        let mode = if checkpoint.is_snapshot() { "ss" } else { "cp" };
        format!("{} {mode} {} {}", checkpoint.number, checkpoint.blocks, checkpoint.inodes)
    };
    all.iter().map(line).collect()
}

/// Lines of a manifest without times.
fn without_times(lines: &[String]) -> Vec<String> {
    let cut = |line: &String| {
        let mut columns: Vec<&str> = line.split('\t').collect();
        columns.remove(6);
        columns.join("\t")
    };
    lines.iter().map(cut).collect()
}

#[test]
fn a_script_leaves_the_kernels_tree_and_checkpoints() {
    let (medium, _) = replay(MountOptions::new(profile()));
    let ours = Rc::new(RefCell::new(Vec::new()));
    let theirs = ours.clone();
    let done = run(medium, move |bench| async move {
        let fs = bench.mount(read_only()).await;
        let found = without_times(&manifest(&fs).await);
        let expected = checkpoints("clean").into_iter().find(|(number, _)| *number == COMPARED);
        let (_, expected) = expected.expect("it has a manifest");
        assert_same("the tree", &found, &without_times(&expected));
        *ours.borrow_mut() = listing(&fs).await;
    });
    assert!(done.1);
    let done = run(load("clean"), move |bench| async move {
        let fs = bench.mount(read_only()).await;
        let (count, expected) = (COMPARED as usize, listing(&fs).await);
        assert_same("checkpoints", &theirs.borrow()[..count], &expected[..count]);
    });
    assert!(done.1);
}

/// All logs up to a checkpoint: place, flags, and which block of which file each of their blocks is.
async fn logs(fs: &Nilfs2) -> Vec<String> {
    let mut lines = Vec::new();
    for segment in 0..fs.segments().await.expect("they are listed").len() as u64 {
        for (start, header, files) in fs.logs(segment).await.expect("they are read") {
            if header.checkpoint > COMPARED {
                continue;
            }
            let (cp, seq) = (header.checkpoint, header.sequence);
            let (flags, blocks) = (header.flags, header.blocks);
            lines.push(format!("{start} cp {cp} seq {seq} flags {flags} blocks {blocks}"));
            for file in files {
                let blocks: Vec<String> = file
                    .blocks
                    .iter()
                    .map(|block| format!("{}@{}", block.virtual_block, block.offset))
                    .collect();
                lines.push(format!(
                    "{start} inode {} cp {} data {} blocks {}",
                    file.inode,
                    file.checkpoint,
                    file.data_blocks,
                    blocks.join(" ")
                ));
            }
        }
    }
    lines
}

#[test]
fn logs_are_those_of_the_kernel() {
    let (medium, _) = replay(MountOptions::new(profile()));
    let ours = Rc::new(RefCell::new(Vec::new()));
    let found = ours.clone();
    let done = run(medium, move |bench| async move {
        *ours.borrow_mut() = logs(&bench.mount(read_only()).await).await;
    });
    assert!(done.1);
    let done = run(load("clean"), move |bench| async move {
        let expected = logs(&bench.mount(read_only()).await).await;
        let found = found.borrow();
        let first = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        if let Some(first) = first {
            let ours = found[first..].iter().take(20).map(|line| format!("+ {line}\n"));
            let theirs = expected[first..].iter().take(20).map(|line| format!("- {line}\n"));
            panic!("line {first}:\n{}", ours.chain(theirs).collect::<String>());
        }
        assert_eq!(found.len(), expected.len());
    });
    assert!(done.1);
}

#[test]
fn every_profile_leaves_the_same_tree() {
    let (_, expected) = checkpoints("clean").swap_remove(COMPARED as usize - 1);
    let expected = without_times(&expected);
    for profile in PROFILES {
        let (medium, bios) = replay(MountOptions::new(profile));
        let flushes = bios.iter().any(|bio| bio.flags.flushes_before);
        assert_eq!(flushes, profile.flushes, "{}", profile.name);
        let expected = expected.clone();
        let done = run(medium, move |bench| async move {
            let fs = bench.mount(read_only()).await;
            assert_same(profile.name, &without_times(&manifest(&fs).await), &expected);
        });
        assert!(done.1);
    }
}
