//! Images that are made here: the same bytes as those of ubinize 2.1.5, and volumes of both kinds
//! through flashing, attaching and updating.

use crate::support;

use support::{BLOCK_BYTES, blank, data, part, quiet, run};
use ubi::headers::{Decoded, EraseCounterHeader, LAYOUT_VOLUME, VolumeHeader};
use ubi::volume_table::decode;
use ubi::{
    AttachOptions, FormatOptions, ImageOptions, Layout, LebNumber, Ubi, UbiError, VolumeImage,
    VolumeKind, VolumeOptions, VolumeSection, VolumeSize, parse_config, ubinize,
};

#[test]
fn images_of_ubinize_are_made_byte_by_byte() {
    for (name, header_offset) in [("ubi-zlib-s2048.ubi.zst", 2048), ("ubi-none-s512.ubi.zst", 512)]
    {
        let image = data(name);
        let layout = Layout::of_geometry(&part(512).geometry, 512, Some(header_offset))
            .expect("a possible layout");
        let head = image[..64].try_into().expect("64 bytes");
        let Decoded::Sound(first) = EraseCounterHeader::decode(head) else {
            panic!("a block begins with a header")
        };
        let from = layout.data_offset as usize;
        let records = decode(&image[from..from + 22_016], layout.leb_bytes).expect("a table");
        let record = records[0].clone().expect("volume 0");
        let mut content = Vec::new();
        for block in image.chunks_exact(BLOCK_BYTES) {
            let at = header_offset as usize;
            let header = VolumeHeader::decode(block[at..at + 64].try_into().expect("64 bytes"));
            let Decoded::Sound(header) = header else { panic!("{name}: no header") };
            if header.volume != LAYOUT_VOLUME {
                content.extend_from_slice(&block[from..]);
            }
        }
        let config = format!(
            "[v]\nmode=ubi\nimage=x\nvol_id=0\nvol_name=vol\nvol_flags=autoresize\nvol_size={}\n",
            u64::from(record.reserved_pebs) * u64::from(layout.leb_bytes)
        );
        let section = parse_config(&config).expect("it is right").remove(0);
        let options = ImageOptions { erase_counter: 0, image_sequence: first.image_sequence };
        let made = ubinize(&layout, options, &[VolumeImage { section, data: content }]);
        let made = made.expect("made");
        let first = made.iter().zip(&image).position(|(made, byte)| made != byte);
        assert_eq!((first, made.len()), (None, image.len()), "{name}");
    }
}

const CONFIG: &str = "
[kernel]
mode=ubi
image=zImage
vol_id=3
vol_type=static
vol_size=1MiB
vol_name=kernel
[data]
mode=ubi
image=data
vol_id=1
vol_name=data
vol_alignment=4096
[rest]
mode=ubi
vol_id=9
vol_size=256KiB
vol_name=rest
vol_flags=autoresize
";

fn bytes(count: usize, seed: u32) -> Vec<u8> {
    (0..count as u32)
        .map(|at| (at.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) as u8)
        .collect()
}

fn image() -> Vec<u8> {
    let sections = parse_config(CONFIG).expect("it is right");
    let layout = Layout::of_geometry(&part(64).geometry, 512, None).expect("a layout");
    let contents = [bytes(300_001, 1), bytes(200_000, 2), Vec::new()];
    let volumes: Vec<_> = sections
        .into_iter()
        .zip(contents)
        .map(|(section, data)| VolumeImage { section, data })
        .collect();
    ubinize(&layout, ImageOptions::default(), &volumes).expect("made")
}

#[test]
fn static_and_dynamic_volumes_are_flashed_read_and_updated() {
    let (chip, is_done) = run(blank(64), false, |bench| async move {
        let options = FormatOptions { image_sequence: 5, ..Default::default() };
        let (sim, cpus, mtd) = (&bench.sim, bench.cpus.clone(), bench.mtd.clone());
        Ubi::flash(sim, cpus, mtd, &image(), &options).await.expect("flashed");
        let ubi = bench.attach(quiet()).await;
        let names: Vec<_> = ubi.volumes();
        assert_eq!(names, [(1, "data".into()), (3, "kernel".into()), (9, "rest".into())]);
        let kernel = ubi.open_volume_named("kernel").await.expect("opened");
        assert_eq!((kernel.kind(), kernel.used_bytes()), (VolumeKind::Static, 300_001));
        assert!(!kernel.is_corrupted());
        let mut part = [0; 1000];
        let status = kernel.read(LebNumber::new(1), 5000, &mut part, true).await.expect("read");
        assert!(status.is_readable());
        assert_eq!(part[..], bytes(300_001, 1)[129_024 + 5000..][..1000]);
        assert!(kernel.write(LebNumber::new(0), 0, &[0; 2048]).await.is_err());
        let data = ubi.open_volume(1).await.expect("opened");
        assert_eq!((data.leb_bytes(), data.leb_count()), (126_976, 2));
        assert!(data.read(LebNumber::new(0), 126_970, &mut part[..10], false).await.is_err());
        let rest = ubi.info().volumes[2].clone();
        assert_eq!((rest.id, ubi.info().available_pebs, rest.is_auto_resized), (9, 0, false));
        ubi.update_volume(3, &bytes(1_000_000, 7)).await.expect("updated");
        assert_eq!(kernel.used_bytes(), 1_000_000);
        ubi.finish_works().await.expect("works end");
    });
    assert!(is_done);
    run(chip, false, |bench| async move {
        let ubi = bench.attach(quiet()).await;
        let kernel = ubi.open_volume(3).await.expect("opened");
        assert_eq!((kernel.used_bytes(), kernel.is_corrupted()), (1_000_000, false));
        let mut part = vec![0; 1000];
        kernel.read(LebNumber::new(7), 0, &mut part, true).await.expect("read");
        assert_eq!(part[..], bytes(1_000_000, 7)[7 * 129_024..][..1000]);
    });
}

#[test]
fn a_flipped_byte_of_a_static_volume_is_found() {
    let mut image = image();
    // Of the fourth block: both tables come first.
    image[3 * BLOCK_BYTES + 4096] ^= 1;
    run(blank(64), false, |bench| async move {
        let (sim, cpus, mtd) = (&bench.sim, bench.cpus.clone(), bench.mtd.clone());
        Ubi::flash(sim, cpus, mtd, &image, &FormatOptions::default()).await.expect("flashed");
        let ubi = bench.attach(quiet()).await;
        let kernel = ubi.open_volume(3).await.expect("opened");
        assert!(kernel.is_corrupted());
        let status = kernel.read(LebNumber::new(1), 0, &mut [0; 10], true).await.expect("read");
        assert!(!status.is_readable());
        let status = kernel.read(LebNumber::new(0), 0, &mut [0; 10], true).await.expect("read");
        assert!(status.is_readable());
    });
}

#[test]
fn volumes_are_made_renamed_resized_and_removed() {
    let (chip, is_done) = run(blank(64), false, |bench| async move {
        bench.format(&FormatOptions::default()).await;
        let ubi = bench.attach(quiet()).await;
        // 64 blocks less two of the table, two of UBI's own and two for bad ones.
        assert_eq!(ubi.info().available_pebs, 58);
        let make = |name: &'static str, lebs: u64| {
            let size = VolumeSize::Bytes(lebs * 129_024);
            VolumeOptions { size, ..VolumeOptions::new(name) }
        };
        assert_eq!(ubi.make_volume(&make("a", 10)).await, Ok(0));
        assert_eq!(ubi.make_volume(&make("b", 20)).await, Ok(1));
        assert_eq!(ubi.make_volume(&make("a", 1)).await, Err(UbiError::Exists("a".into())));
        let too_large = Err(UbiError::VolumeTooLarge { wanted: 29, available: 28 });
        assert_eq!(ubi.make_volume(&make("c", 29)).await, too_large);
        let odd = VolumeOptions { alignment: 1000, ..make("c", 1) };
        assert!(ubi.make_volume(&odd).await.is_err());
        ubi.rename_volumes(&[(0, "b"), (1, "a")]).await.expect("exchanged");
        let volume = ubi.open_volume_named("a").await.expect("opened");
        assert_eq!((volume.id(), volume.leb_count()), (1, 20));
        volume.write(LebNumber::new(19), 0, &[1; 2048]).await.expect("written");
        volume.write(LebNumber::new(3), 0, &[3; 2048]).await.expect("written");
        assert_eq!(volume.map(LebNumber::new(3)).await, Err(UbiError::Mapped(LebNumber::new(3))));
        ubi.resize_volume(1, 10).await.expect("smaller");
        assert_eq!((ubi.info().available_pebs, volume.leb_count()), (38, 10));
        assert!(volume.write(LebNumber::new(19), 0, &[1; 2048]).await.is_err());
        ubi.resize_volume(1, 48).await.expect("larger");
        ubi.remove_volume(0).await.expect("removed");
        assert_eq!(ubi.remove_volume(0).await, Err(UbiError::NoVolume("0".into())));
        assert_eq!(ubi.info().available_pebs, 10);
        ubi.finish_works().await.expect("what was unmapped is erased");
    });
    assert!(is_done);
    run(chip, false, |bench| async move {
        let options = AttachOptions { is_read_only: true, ..quiet() };
        let ubi = bench.attach(options).await;
        assert_eq!(ubi.volumes(), [(1, "a".into())]);
        let volume = ubi.open_volume(1).await.expect("opened");
        assert_eq!(volume.leb_count(), 48);
        assert!(volume.is_mapped(LebNumber::new(3)) && !volume.is_mapped(LebNumber::new(19)));
        assert_eq!(volume.write(LebNumber::new(4), 0, &[0; 2048]).await, Err(UbiError::ReadOnly));
        assert!(volume.unmap(LebNumber::new(3)).await.is_err());
    });
}

#[test]
fn structures_in_memory_are_those_of_a_kernel() {
    run(blank(64), false, |bench| async move {
        bench.format(&FormatOptions::default()).await;
        let ubi = bench.attach(quiet()).await;
        ubi.make_volume(&VolumeOptions::new("data")).await.expect("made");
        let memory = ubi.memory_use();
        let bytes = |name: &str| {
            memory.kinds.iter().find(|(kind, ..)| *kind == name).expect("a structure").2
        };
        // Two works are pending: both copies of the table were changed.
        assert_eq!(bytes("ubi_work"), 56);
        assert_eq!((bytes("ubi_wl_entry"), bytes("ubi_lookuptbl")), (64 * 20, 64 * 4));
        assert_eq!(bytes("ubi_eba_entry"), (2 + 58) * 4);
        assert_eq!(bytes("ubi_peb_buf"), 131_072);
        assert!(memory.kinds.is_sorted());
    });
}

#[test]
fn an_interrupted_update_is_an_error() {
    let (chip, _) = run(blank(64), false, |bench| async move {
        let (sim, cpus, mtd) = (&bench.sim, bench.cpus.clone(), bench.mtd.clone());
        Ubi::flash(sim, cpus, mtd, &image(), &FormatOptions::default()).await.expect("flashed");
        let ubi = bench.attach(quiet()).await;
        bench.mtd.with_chip(|chip| chip.cut_power_after(100, nand::CutPoint::Inside));
        ubi.update_volume(3, &bytes(1_000_000, 7)).await.expect("never");
    });
    let mut chip = chip;
    chip.power_on();
    run(chip, false, |bench| async move {
        let ubi = bench.attach(quiet()).await;
        let error = ubi.open_volume(3).await.err().expect("it is refused");
        assert_eq!(error, UbiError::Incomplete("\"kernel\"".into()));
        ubi.update_volume(3, &[7; 10]).await.expect("updated");
        let kernel = ubi.open_volume(3).await.expect("opened");
        assert_eq!((kernel.used_bytes(), kernel.is_corrupted()), (10, false));
    });
}

/// `UBI_VOL_NAME_MAX` is 127, `UBI_MAX_VOLUMES` 128; an alignment is a multiple of the smallest write up to
/// the bytes of a block (`verify_mkvol_req` of `drivers/mtd/ubi/cdev.c`).
#[test]
fn what_a_volume_cannot_be_is_refused_at_the_very_limit() {
    run(blank(64), false, |bench| async move {
        bench.format(&FormatOptions::default()).await;
        let ubi = bench.attach(quiet()).await;
        let (longest, too_long) = ("n".repeat(127), "n".repeat(128));
        let make =
            |name: &str| VolumeOptions { size: VolumeSize::Bytes(1), ..VolumeOptions::new(name) };
        for name in ["", too_long.as_str(), "a\0b"] {
            let refused = ubi.make_volume(&make(name)).await;
            assert!(matches!(refused, Err(UbiError::Invalid(_))), "{name:?}: {refused:?}");
        }
        assert_eq!(ubi.make_volume(&make(&longest)).await, Ok(0));
        let numbered = |id, name: &str| VolumeOptions { id: Some(id), ..make(name) };
        assert!(matches!(ubi.make_volume(&numbered(128, "x")).await, Err(UbiError::Invalid(_))));
        assert_eq!(ubi.make_volume(&numbered(127, "last")).await, Ok(127));
        assert_eq!(ubi.make_volume(&numbered(127, "x")).await, Err(UbiError::Exists("127".into())));
        assert_eq!(ubi.make_volume(&make("second")).await, Ok(1), "the lowest that is free");
        for alignment in [0, 1000, 256, 129_025, 129_536] {
            let odd = VolumeOptions { alignment, ..make("odd") };
            let refused = ubi.make_volume(&odd).await;
            assert!(matches!(refused, Err(UbiError::Invalid(_))), "{alignment}: {refused:?}");
        }
        let nothing = VolumeOptions { size: VolumeSize::Bytes(0), ..make("nothing") };
        assert!(matches!(ubi.make_volume(&nothing).await, Err(UbiError::Invalid(_))));
        let whole = VolumeOptions { alignment: 129_024, ..make("whole") };
        assert_eq!(ubi.make_volume(&whole).await, Ok(2));
        // 58 blocks, less four volumes of one block.
        assert_eq!(ubi.info().available_pebs, 54);
        let rest = VolumeOptions { size: VolumeSize::Bytes(54 * 129_024), ..make("rest") };
        assert_eq!(ubi.make_volume(&rest).await, Ok(3), "all that is left");
        assert_eq!(ubi.info().available_pebs, 0);
        let none = Err(UbiError::VolumeTooLarge { wanted: 1, available: 0 });
        assert_eq!(ubi.make_volume(&VolumeOptions::new("all")).await, none);
        // Names may be exchanged, and no two volumes have the same.
        for name in ["", too_long.as_str(), "a\0b"] {
            let refused = ubi.rename_volumes(&[(1, name)]).await;
            assert!(matches!(refused, Err(UbiError::Invalid(_))), "{name:?}: {refused:?}");
        }
        assert_eq!(ubi.rename_volumes(&[(5, "x")]).await, Err(UbiError::NoVolume("5".into())));
        let twice = Err(UbiError::Exists("rest".into()));
        assert_eq!(ubi.rename_volumes(&[(1, "rest")]).await, twice);
        let other = "m".repeat(127);
        ubi.rename_volumes(&[(1, &other), (127, "second")]).await.expect("renamed");
        let names: Vec<_> = ubi.volumes().into_iter().map(|(id, name)| (id, name.len())).collect();
        assert_eq!(names, [(0, 127), (1, 127), (2, 5), (3, 4), (127, 6)]);
        ubi.finish_works().await.expect("works end");
        // A device that may not be written refuses all of it.
        let reader = bench.attach(AttachOptions { is_read_only: true, ..quiet() }).await;
        assert_eq!(reader.make_volume(&make("x")).await, Err(UbiError::ReadOnly));
        assert_eq!(reader.rename_volumes(&[(1, "x")]).await, Err(UbiError::ReadOnly));
        assert_eq!(reader.volumes().len(), 5);
        assert_eq!(reader.open_volume(127).await.map(|volume| volume.leb_count()), Ok(1));
    });
}

#[test]
fn an_alignment_that_no_block_has_is_refused() {
    let layout = Layout::of_geometry(&part(64).geometry, 512, None).expect("a layout");
    let section = &parse_config(CONFIG).expect("it is right")[0];
    for (alignment, is_right) in [(1, true), (0, false), (layout.leb_bytes + 2048, false)] {
        let section = VolumeSection { alignment, ..section.clone() };
        let made =
            ubinize(&layout, ImageOptions::default(), &[VolumeImage { section, data: vec![1] }]);
        assert_eq!(made.is_ok(), is_right, "{alignment}");
        assert!(is_right || matches!(made, Err(UbiError::Invalid(_))), "{alignment}: {made:?}");
    }
}
