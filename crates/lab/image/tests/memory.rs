//! Memory: at most twice the image and 64 MiB, whatever the image says.
//!
//! A binary of its own, for the allocator counts everything.

mod support;

use image::{AnyImage, OpenOptions};
use peak_alloc::PeakAlloc;
use random::Stream;
use std::path::Path;
use support::{bytes, jffs2_data, scratch, ubi_data, yaffs2_data};
use ubi::headers::crc32;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Megabytes that a job takes at most, beyond what was taken before.
fn peak_of(job: impl FnOnce()) -> f32 {
    let before = ALLOCATOR.current_usage_as_mb();
    ALLOCATOR.reset_peak_usage();
    job();
    ALLOCATOR.peak_usage_as_mb() - before
}

fn check(path: &Path, file_system: Option<&str>, name: &str) {
    let options =
        OpenOptions { file_system: file_system.map(str::to_owned), ..OpenOptions::default() };
    let peak_mb = peak_of(|| {
        if let Ok(image) = AnyImage::open(path, &options) {
            // Messages and reports are welcome alike.
            let _ = image.check_within(1 << 28);
            let _ = image.info();
        }
    });
    let image_mb = std::fs::metadata(path).expect("there").len() as f32 / 1024.0 / 1024.0;
    assert!(peak_mb <= 2.0 * image_mb + 64.0, "{name}: {peak_mb} MB for {image_mb} MB");
}

/// Sizes and counts in records of the volume table, in headers and in nodes become senseless.
fn forge_sizes(image: &mut [u8], stream: &mut Stream) {
    let stride = if image.len().is_multiple_of(135_168) { 2112 } else { 2048 };
    for block in image.chunks_mut(64 * stride) {
        for page in block.chunks_mut(stride) {
            let (data, oob) = page.split_at_mut(2048);
            if data[16..].starts_with(b"vol\0") || data[16..].starts_with(b"gold\0") {
                let blocks: u32 = [1 << 20, 1 << 31, 5000, 30][stream.below(4) as usize];
                data[..4].copy_from_slice(&blocks.to_be_bytes());
                let sum = crc32(&data[..168]);
                data[168..172].copy_from_slice(&sum.to_be_bytes());
            }
            forge_nodes(data, stream);
            if stride == 2112 && data.iter().any(|byte| *byte != 0xff) {
                mtd::find_layout("linux-large").expect("in the table").protect(data, oob);
            }
        }
    }
}

/// Numbers in nodes of UBIFS that lie whole in the bytes.
fn forge_nodes(bytes: &mut [u8], stream: &mut Stream) {
    for at in (0..bytes.len().saturating_sub(24)).step_by(8) {
        if bytes[at..at + 4] != [0x31, 0x18, 0x10, 0x06] || stream.below(8) > 0 {
            continue;
        }
        let length = u32::from_le_bytes(bytes[at + 16..at + 20].try_into().expect("four bytes"));
        let Some(node) = bytes.get_mut(at..at + length as usize) else { continue };
        if node.len() < 64 {
            continue;
        }
        let field = 24 + 4 * stream.below((node.len() as u32 - 24).min(140) / 4) as usize;
        let value: u32 = [u32::MAX, 1 << 27, 1 << 31, 100_000][stream.below(4) as usize];
        node[field..field + 4].copy_from_slice(&value.to_le_bytes());
        let sum = crc32(&node[8..]);
        node[4..8].copy_from_slice(&sum.to_le_bytes());
    }
}

#[test]
fn no_image_takes_more_than_twice_its_size() {
    let path = scratch("memory.image");
    for (data, name) in [(jffs2_data(), "gc"), (yaffs2_data(), "direct-gc")] {
        std::fs::write(&path, bytes(&data, name)).expect("written");
        check(&path, None, name);
        // Sizes of files, in headers that no code protects any more, become senseless.
        let mut image = bytes(&data, name);
        let mut stream = Stream::new(1, "sizes");
        for page in image.chunks_exact_mut(2112) {
            if page[..4] == [1, 0, 0, 0] {
                page[496..500].copy_from_slice(&stream.below(1 << 20).to_le_bytes());
            }
            if page[0] != 0xff {
                let at = stream.below(2048) as usize;
                page[at] = stream.next_u64() as u8;
            }
            let (data, oob) = page.split_at_mut(2048);
            if data.iter().any(|byte| *byte != 0xff) {
                mtd::find_layout("linux-large").expect("in the table").protect(data, oob);
            }
        }
        std::fs::write(&path, image).expect("written");
        check(&path, None, name);
    }
    for name in ["ubifs-gc", "ubi-none-s512", "ubi-zlib-s2048"] {
        let image = bytes(&ubi_data(), name);
        std::fs::write(&path, &image).expect("written");
        check(&path, None, name);
        for seed in 0..20 {
            let mut forged = image.clone();
            forge_sizes(&mut forged, &mut Stream::new(seed, "sizes"));
            std::fs::write(&path, forged).expect("written");
            check(&path, Some("ubifs"), &format!("{name}, forged {seed}"));
        }
        if !name.starts_with("ubifs") {
            // The file system alone.
            let from = if name.ends_with("s2048") { 4096 } else { 2048 };
            let blocks = image.chunks_exact(131_072).skip(2);
            let mut bare: Vec<u8> = blocks.flat_map(|block| block[from..].to_vec()).collect();
            std::fs::write(&path, &bare).expect("written");
            check(&path, None, name);
            for seed in 0..20 {
                forge_nodes(&mut bare, &mut Stream::new(seed, "sizes"));
                std::fs::write(&path, &bare).expect("written");
                check(&path, Some("ubifs"), &format!("{name} alone, forged {seed}"));
            }
        }
    }
    let mut stream = Stream::new(2, "noise");
    let mut noise: Vec<u8> = (0..8 << 20).map(|_| stream.next_u64() as u8).collect();
    noise.chunks_mut(2112).for_each(|page| page[2048.min(page.len() - 1)] = 0xff);
    std::fs::write(&path, &noise).expect("written");
    for file_system in [None, Some("jffs2"), Some("ubifs"), Some("yaffs2")] {
        check(&path, file_system, "noise");
    }
    std::fs::remove_file(path).expect("removed");
}
