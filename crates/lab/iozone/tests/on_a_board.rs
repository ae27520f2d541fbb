//! IOzone on both file systems over a board.

use file_systems::find_kind;
use iozone::{Benchmark, Measurement, Options};
use mount::{Driver, MountRequest, run};
use nand::{Chip, FaultSettings, Storage, find_part};
use std::rc::Rc;

fn bench(file_system: &str, board: &str, options: &str) -> Result<Vec<Measurement>, String> {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = 64;
    let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    let layout = mtd::find_layout("linux-large").expect("in the table");
    let board = board::find_board(board).expect("in the catalogue");
    let driver = Driver::of_board(layout, Rc::new(board));
    let kind = find_kind(file_system).expect("in the table");
    let options = Options::parse(options).map_err(|error| error.to_string())?;
    let request = MountRequest { profile: Some("linux-2.6.29".into()), ..MountRequest::default() };
    let outcome = run(chip, &driver, 1, |machine| async move {
        let mut benchmark = Benchmark::start(&machine, kind, request, 1).await.expect("blank");
        benchmark.run(&options).await.map_err(|error| error.to_string())
    });
    outcome.value.expect("no power cut")
}

#[test]
fn a_page_written_costs_transfer_and_program_on_yaffs2() {
    let found = bench("yaffs2", "s5pv210-datasheet", "-i 0 -i 1 -s 1m -r 32k -e -c -U -+n");
    let found = found.expect("it runs");
    assert_eq!(found.iter().map(|one| one.test).collect::<Vec<_>>(), ["write", "read"]);
    let (write, read) = (&found[0], &found[1]);
    // 512 pages of data; a header or two, and nothing to clean.
    assert!((512..=516).contains(&write.chip.page_programs), "{write:?}");
    // The pages that were read ahead of the priming read of one byte are in memory.
    assert!((440..=516).contains(&read.chip.page_reads), "{read:?}");
    let page_ns = write.elapsed_ns / write.chip.page_programs;
    // 250 us of the array and 2112 bytes at 25 ns, and what the software costs.
    assert!((303_000..403_000).contains(&page_ns), "{page_ns} ns a page written");
    let page_ns = read.elapsed_ns / read.chip.page_reads;
    // 40 us and as many bytes.
    assert!((90_000..145_000).contains(&page_ns), "{page_ns} ns a page read");
    assert_eq!(write.records, 32);
}

#[test]
fn all_tests_run_on_both_and_the_bytes_come_back() {
    for file_system in ["jffs2", "yaffs2"] {
        let found = bench(file_system, "s5pv210-datasheet", "-s 256k -r 16k").expect("it runs");
        assert_eq!(found.len(), 13);
        assert!(found.iter().all(|one| one.records == 16 && one.elapsed_ns > 0), "{found:#?}");
        let again = bench(file_system, "s5pv210-datasheet", "-s 256k -r 16k");
        assert_eq!(again, Ok(found));
    }
}

#[test]
fn what_does_not_compress_takes_jffs2_longer() {
    let time = |contents: &str| {
        let options = format!("-i 0 -s 512k -r 32k -e -c -+n {contents}");
        bench("jffs2", "s5pv210-datasheet", &options).expect("it runs")[0].clone()
    };
    let (pattern, random) = (time(""), time("-+w 0"));
    assert!(pattern.chip.page_programs * 20 < random.chip.page_programs);
    assert!(pattern.elapsed_ns < random.elapsed_ns);
}

#[test]
fn direct_files_are_refused_in_the_words_of_the_kernel() {
    let said = bench("yaffs2", "s5pv210-datasheet", "-i 0 -I").expect_err("refused");
    assert_eq!(said, "iozone write: open with O_DIRECT (-I): EINVAL: invalid argument");
}
