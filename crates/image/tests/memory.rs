//! Memory: at most twice the image and 64 MiB, whatever the image says.
//!
//! A binary of its own, for the allocator counts everything.

mod support;

use image::{Image, OpenOptions};
use peak_alloc::PeakAlloc;
use random::Stream;
use std::path::Path;
use support::{bytes, jffs2_data, scratch, yaffs2_data};

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
        if let Ok(image) = Image::open(path, &options) {
            // Messages and reports are welcome alike.
            let _ = image.check_within(1 << 28);
            let _ = image.info();
        }
    });
    let image_mb = std::fs::metadata(path).expect("there").len() as f32 / 1024.0 / 1024.0;
    assert!(peak_mb <= 2.0 * image_mb + 64.0, "{name}: {peak_mb} MB for {image_mb} MB");
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
    let mut stream = Stream::new(2, "noise");
    let mut noise: Vec<u8> = (0..8 << 20).map(|_| stream.next_u64() as u8).collect();
    noise.chunks_mut(2112).for_each(|page| page[2048.min(page.len() - 1)] = 0xff);
    std::fs::write(&path, &noise).expect("written");
    for file_system in [None, Some("jffs2"), Some("yaffs2")] {
        check(&path, file_system, "noise");
    }
    std::fs::remove_file(path).expect("removed");
}
