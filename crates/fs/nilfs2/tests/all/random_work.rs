//! Random work, compared with a model after every stretch and every remount.

use crate::support;

use block_medium::MemoryMedium;
use fs_api::{Errno, FileSystem};
use nilfs2::{FormatOptions, Nilfs2, format};
use random::Stream;
use support::model::Model;
use support::{Bench, quiet, run};

pub(crate) async fn fresh(bench: &Bench, blocks_per_segment: u32) -> Nilfs2 {
    let options = FormatOptions { blocks_per_segment, ..FormatOptions::default() };
    format(&*bench.medium, &options).await.expect("it is made");
    bench.mount(quiet()).await
}

async fn assert_sound(fs: &Nilfs2, label: &str) {
    assert_eq!(fs.check().await.expect("it is read"), [], "{label}");
    assert_eq!(fs.findings(), [], "{label}");
}

#[test]
fn work_and_remounts_agree_with_a_model() {
    for seed in 0..6 {
        let done = run(MemoryMedium::new(4096, 64 << 20), move |bench| async move {
            let mut stream = Stream::new(seed, "work");
            let mut fs = fresh(&bench, 64).await;
            let mut model = Model::new(2_000_000);
            model.add_made_by_format();
            for round in 0..8 {
                for _ in 0..120 {
                    match model.step(&fs, &mut stream).await {
                        Ok(()) => {}
                        Err(error) => panic!("seed {seed}, round {round}: {error}"),
                    }
                }
                let label = format!("seed {seed}, round {round}");
                model.compare(&fs, &label).await;
                assert_sound(&fs, &label).await;
                match round % 3 {
                    0 => _ = fs.drop_caches(),
                    1 => fs.sync().await.expect("it syncs"),
                    _ => {}
                }
                model.compare(&fs, &label).await;
                fs.unmount().await.expect("it unmounts");
                fs = bench.mount(quiet()).await;
                model.compare(&fs, &format!("{label}, mounted again")).await;
                assert_sound(&fs, &format!("{label}, mounted again")).await;
            }
        });
        assert!(done.1, "seed {seed}");
    }
}

#[test]
fn a_full_device_says_so_and_loses_nothing() {
    let done = run(MemoryMedium::new(4096, 6 << 20), |bench| async move {
        let mut stream = Stream::new(1, "work");
        let mut fs = fresh(&bench, 64).await;
        let mut model = Model::new(50_000_000);
        model.add_made_by_format();
        let mut refused = 0;
        for _ in 0..4000 {
            match model.step(&fs, &mut stream).await {
                Ok(()) => {}
                Err(Errno::Enospc) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            if refused > 20 {
                break;
            }
        }
        assert!(refused > 20);
        fs.unmount().await.expect("it unmounts");
        fs = bench.mount(quiet()).await;
        model.compare(&fs, "full").await;
        assert_sound(&fs, "full").await;
    });
    assert!(done.1);
}
