//! Workloads that a kernel ran on a simulated chip, replayed: operations of the chip by phase.
//!
//! Expected are the counts of Linux 6.12 on nandsim, of UBI and UBIFS together. They are met exactly but
//! for what the kernel's own caches decide: which inodes survive `drop_caches` (phase `read`), and, when
//! garbage is collected, how far write-back and the commit thread got meanwhile.

use crate::support;

use fs_api::NewInode;
use script::{Data, DataKind, Xorshift};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use support::host::Host;
use support::{Bench, blank, quiet, run_chip, text};
use ubi::{FormatOptions, Ubi, VolumeOptions};
use ubifs::{Compressor, MountOptions, Volume};

/// Reads, programs and erases of the chip.
type Counts = [u64; 3];

struct Replay {
    bench: Bench,
    header_offset: Option<u32>,
    ubi: Option<Rc<Ubi>>,
    host: Option<Rc<Host>>,
    phases: Vec<(String, Counts)>,
    phase: String,
    before: Counts,
    /// The chip as it was while the file system was mounted.
    snapshot: Option<nand::Chip>,
}

fn stream(kind: &str, seed: u64) -> Data {
    Data::new(DataKind::from_letter(kind).expect("a kind of data"), seed)
}

impl Replay {
    fn counts(&self) -> Counts {
        let counters = self.bench.mtd().with_chip(|chip| chip.counters());
        [counters.reads(), counters.programs(), counters.erases]
    }

    fn end_phase(&mut self, next: &str) {
        let now = self.counts();
        let spent = [0, 1, 2].map(|at| now[at] - self.before[at]);
        if !self.phase.is_empty() {
            self.phases.push((self.phase.clone(), spent));
        }
        (self.phase, self.before) = (next.to_owned(), now);
    }

    fn host(&self) -> &Host {
        self.host.as_ref().expect("mounted")
    }

    async fn wait_until_idle(&self) {
        let (mut quiet_ms, mut before) = (0, self.counts());
        while quiet_ms < 1200 {
            self.bench.sim.sleep(100_000_000).await;
            let now = self.counts();
            quiet_ms = if now == before { quiet_ms + 100 } else { 0 };
            before = now;
        }
    }

    async fn command(&mut self, words: &[&str]) {
        let options = FormatOptions {
            image_sequence: 42,
            header_offset: self.header_offset,
            keeps_counters: true,
        };
        let (sim, cpus) = (self.bench.sim.clone(), self.bench.cpus.clone());
        match words[0] {
            "ubiformat" => Ubi::format(&sim, cpus, self.bench.mtd().clone(), &options)
                .await
                .expect("it is formatted"),
            "ubiattach" => self.ubi = Some(self.bench.attach(self.header_offset).await),
            "ubimkvol" => {
                let ubi = self.ubi.as_ref().expect("attached");
                ubi.make_volume(&VolumeOptions::new("gold")).await.expect("made");
            }
            "rmmod" | "modprobe" => {}
            "ubidetach" => self.ubi.take().expect("attached").detach(),
            _ => panic!("unknown: {words:?}"),
        }
    }

    // One function: one arm a call of the language.
    async fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        // Inodes keep whole seconds, and a phase took the kernel less.
        if let Some(host) = &self.host {
            host.now.set(1_700_000_000 + 10 * i64::from(self.phases.len() as u32));
        }
        match words[..] {
            ["phase", name] => self.end_phase(name),
            ["cmd", ..] => self.command(&words[1..]).await,
            ["mount", ..] => {
                let ubi = self.ubi.as_ref().expect("attached");
                let volume = Volume::Ubi(ubi.open_volume(0).await.expect("volume 0"));
                let compressor = Some(Compressor::Lzo);
                let options = MountOptions { compressor, has_thread: true, ..quiet() };
                self.host = Some(Host::new(&self.bench, self.bench.mount(volume, options).await));
            }
            ["umount"] => {
                self.host().unmount().await.expect("it unmounts");
                self.host = None;
            }
            ["settle", _] => self.wait_until_idle().await,
            ["mkdir", path, _] => {
                self.host().make(path, NewInode::Directory(0o755)).await.expect("made");
            }
            ["sync"] => self.host().sync().await.expect("synced"),
            ["put", path, _, _, _, kind, _, ..] => {
                let data = stream(kind, number(6));
                let syncs = words.get(7).is_some();
                self.put(path, number(3) as usize, number(4) as usize, data, syncs).await;
            }
            ["putn", prefix, _, _, _, _, _, kind, _] => {
                for file in number(2)..number(3) {
                    let data = stream(kind, number(8) + file);
                    let path = format!("{prefix}{file:05}");
                    self.put(&path, number(5) as usize, number(6) as usize, data, false).await;
                }
            }
            ["append", path, _, _, kind, _, ..] => {
                let shown = self.host().attributes(path).await;
                let (mut at, end) = (shown.expect("shown").size_bytes, number(2));
                let (mut data, end) = (stream(kind, number(5)), at + end);
                while at < end {
                    let part = data.take((number(3) as usize).min((end - at) as usize));
                    self.host().write(path, at, &part).await.expect("written");
                    at += part.len() as u64;
                }
            }
            ["rwrite", path, _, _, _, _, kind, _, ..] => {
                let (block, bytes) = (number(3), number(4));
                let (mut places, mut data) = (Xorshift::new(number(5)), stream(kind, number(7)));
                let syncs = words.get(8).copied();
                for _ in 0..number(2) {
                    let offset = (places.next_number() >> 33) % (bytes / block) * block;
                    let part = data.take(block as usize);
                    self.host().write(path, offset, &part).await.expect("written");
                    if syncs == Some("fsynceach") {
                        self.host().fsync(path).await.expect("synced");
                    }
                }
                if syncs == Some("fsync") {
                    self.host().fsync(path).await.expect("synced");
                }
            }
            ["read", path, _] => {
                self.host().read(path).await.expect("it reads");
            }
            ["unlinkn", prefix, _, _] => {
                for file in number(2)..number(3) {
                    self.host().unlink(&format!("{prefix}{file:05}")).await.expect("unlinked");
                }
            }
            ["unlink", path] => self.host().unlink(path).await.expect("unlinked"),
            ["drop"] => {
                if let Some(host) = &self.host {
                    host.drop_caches().await;
                    // The kernel asks again while something is freed: a commit that it started ends.
                    self.bench.sim.sleep(500_000_000).await;
                    host.fs.shrink();
                }
            }
            ["snap", _] => {
                self.snapshot = Some(self.bench.mtd().with_chip(|chip| chip.clone()));
            }
            ["load", _] => {
                let snapshot = self.snapshot.clone().expect("taken before");
                self.bench.mtd().with_chip(|chip| *chip = snapshot);
            }
            ["log" | "workload", ..] | [] => {}
            _ => panic!("unknown: {line}"),
        }
    }

    async fn put(&self, path: &str, bytes: usize, chunk: usize, mut data: Data, syncs: bool) {
        let host = self.host();
        host.open(path).await.expect("made");
        let mut at = 0;
        while at < bytes {
            let part = data.take(chunk.min(bytes - at));
            host.write(path, at as u64, &part).await.expect("written");
            at += part.len();
        }
        if syncs {
            host.fsync(path).await.expect("synced");
        }
    }
}

fn replay(script: &str, blocks: u32, header_offset: Option<u32>) -> Vec<(String, Counts)> {
    let result = Rc::new(RefCell::new(Vec::new()));
    let (out, script) = (result.clone(), text(&format!("{script}.ops")));
    let job = move |bench| async move {
        let mut replay = Replay {
            bench,
            header_offset,
            ubi: None,
            host: None,
            phases: Vec::new(),
            phase: String::new(),
            before: [0; 3],
            snapshot: None,
        };
        for line in script.lines() {
            replay.line(line).await;
        }
        replay.end_phase("");
        out.replace(replay.phases);
    };
    let (_, is_done) = run_chip("linux-large", blank(blocks), true, job);
    assert!(is_done);
    result.take()
}

/// Compares phase by phase; a line of `wanted`: name, reads, programs, erases, and how far each may
/// be off: a share in thousandths, or this many operations.
fn compare(script: &str, blocks: u32, header_offset: Option<u32>, wanted: &str) {
    let found: BTreeMap<_, _> = replay(script, blocks, header_offset).into_iter().collect();
    let mut wrong = Vec::new();
    for line in wanted.lines().filter(|line| !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let counts = found.get(words[0]).unwrap_or_else(|| panic!("no phase {}", words[0]));
        let margin = words.get(4).map_or(0, |_| number(4));
        let least = words.get(5).map_or(0, |_| number(5));
        let is_near = |at: usize| {
            let wanted = number(at + 1);
            counts[at].abs_diff(wanted) <= (wanted * margin / 1000).max(least)
        };
        if !(0..3).all(is_near) {
            wrong.push(format!("{}: {counts:?} instead of {:?}", words[0], &words[1..4]));
        }
    }
    assert!(wrong.is_empty(), "{script}:\n{}", wrong.join("\n"));
}

#[test]
fn incompressible_data() {
    compare(
        "ubifs-base-x",
        512,
        None,
        "
        ubiformat 512 638 512
        attach-first 1046 0 0
        mkvol 0 26 2
        first-mount 200 18 0
        first-mount-bg 0 0 0
        create 0 94 1
        seq-s4k 11 2164 1
        seq-s32k 11 2182 2
        rnd-end 2 488 1
        rnd-each 4 813 1
        read 3236 8 1 0 2
        full-umount 0 2 0
        re-attach 1046 0 0
        re-mount 264 2 0
        re-mount-bg 0 0 0
        delete 619 113 87
        empty-umount 0 2 0
        re2-attach 1046 0 0
        re2-mount 241 2 0
        re2-mount-bg 0 0 0
        end-umount 0 8 1
        ",
    );
}

#[test]
fn compressible_data() {
    compare(
        "ubifs-base-t",
        512,
        None,
        "
        ubiformat 512 638 512
        attach-first 1046 0 0
        mkvol 0 26 2
        first-mount 200 18 0
        first-mount-bg 0 0 0
        create 0 69 1
        seq-s4k 5 844 0
        seq-s32k 3 869 1
        rnd-end 2 186 0
        rnd-each 1 265 0
        read 1869 0 0 0 2
        full-umount 0 33 1
        re-attach 1046 0 0
        re-mount 283 2 0
        re-mount-bg 0 0 0
        delete 603 60 34
        empty-umount 0 2 0
        re2-attach 1046 0 0
        re2-mount 258 2 0
        re2-mount-bg 0 0 0
        end-umount 0 8 1
        ",
    );
}

#[test]
fn filling_the_chip() {
    compare(
        "ubifs-fill-x",
        512,
        None,
        "
        ubiformat 512 638 512
        attach-first 1046 0 0
        mkvol 0 26 2
        first-mount 200 18 0
        first-mount-bg 0 1 0
        fill1 88 17469 16
        fill1-umount 0 8 1
        fill1-attach 1046 0 0
        fill1-mount 248 2 0
        fill1-mount-bg 0 0 0
        fill2 57 8737 8
        fill2-umount 0 8 1
        fill2-attach 1046 0 0
        fill2-mount 268 2 0
        fill2-mount-bg 0 0 0
        ow 618 1809 2 0 2
        ow-umount 0 8 1
        ow-attach 1046 0 0
        ow-mount 306 2 0
        ow-mount-bg 0 0 0
        end-umount 0 8 1
        ",
    );
}

#[test]
fn collecting_garbage() {
    compare(
        "ubifs-gc-x",
        64,
        None,
        "
        ubiformat 64 190 64
        attach-first 150 0 0
        mkvol 0 26 2
        first-mount 198 17 0
        first-mount-bg 0 0 0
        fill 6 1402 6
        ow1 5 1048 4 20 2
        ow2 1575 1530 30 20 2
        ow3 1260 1451 26 20 2
        ow4 1386 1466 28 20 2
        end-umount 0 8 1
        re-attach 150 0 0
        re-mount 250 2 0 20 2
        re-mount-bg 0 0 0 20 2
        end2-umount 0 8 1
        ",
    );
}

#[test]
fn incompressible_data_with_headers_in_pages() {
    compare(
        "ubifs2048-base-x",
        512,
        Some(2048),
        "
        ubiformat 512 638 512
        attach-first 1046 0 0
        mkvol 0 26 2
        first-mount 197 18 0
        first-mount-bg 0 0 0
        create 0 94 1
        seq-s4k 11 2167 1
        seq-s32k 12 2199 3
        rnd-end 1 471 0
        rnd-each 5 816 1
        read 3234 13 1 0 2
        full-umount 0 8 1
        re-attach 1046 0 0
        re-mount 268 2 0
        re-mount-bg 0 0 0
        delete 613 116 90
        empty-umount 0 2 0
        re2-attach 1046 0 0
        re2-mount 245 2 0
        re2-mount-bg 0 0 0
        end-umount 0 8 1
        ",
    );
}

#[test]
fn filling_with_headers_in_pages() {
    compare(
        "ubifs2048-fill-x",
        512,
        Some(2048),
        "
        ubiformat 512 638 512
        attach-first 1046 0 0
        mkvol 0 26 2
        first-mount 197 18 0
        first-mount-bg 0 1 0
        fill1 91 17499 17
        fill1-umount 0 8 1
        fill1-attach 1046 0 0
        fill1-mount 286 2 0
        fill1-mount-bg 0 0 0
        fill2 57 8747 8
        fill2-umount 0 8 1
        fill2-attach 1046 0 0
        fill2-mount 234 2 0
        fill2-mount-bg 0 0 0
        ow 624 1833 2 0 2
        ow-umount 0 8 1
        ow-attach 1046 0 0
        ow-mount 232 2 0
        ow-mount-bg 0 0 0
        end-umount 0 8 1
        ",
    );
}

#[test]
fn a_cut() {
    compare(
        "ubifs-cut-x",
        512,
        None,
        "
        ubiformat 512 638 512
        attach-first 1046 0 0
        mkvol 0 26 2
        first-mount 200 18 0
        first-mount-bg 0 0 0
        fill 44 8734 8
        write-fsynced 1 270 0
        write-unsynced 0 0 0
        cut-attach 1046 0 0
        cut-mount 573 68 3 0 2
        cut-mount-bg 0 0 0 0 2
        cut-read 385 0 0 0 2
        cut-after 0 11 1
        end-umount 0 2 0
        ",
    );
}
