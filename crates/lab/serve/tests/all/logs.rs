//! A log gives the same state again.

use crate::client::Client;
use crate::support::{Folder, core, options, socket, spec, start};
use random::Stream;
use serve::{CutAfter, LogReport, Pace, ServerOptions, replay_log};
use std::path::Path;

fn logged(folder: &Folder, name: &str, pace: Pace, cut_after: Option<CutAfter>) -> ServerOptions {
    let device = spec("emmc-5.1-64gb", 4 << 20, &[]);
    ServerOptions { log: Some(folder.path(name)), ..options(folder, core(device, cut_after), pace) }
}

/// Writes, reads, trims and flushes, with power cuts between; returns the digest of the chips.
fn run(options: &ServerOptions) -> String {
    let server = start(options);
    let mut draw = Stream::new(9, "logs");
    // A recovery takes a second of the device's time.
    let rounds = if options.pace == Pace::None { 4 } else { 2 };
    for _ in 0..rounds {
        let mut client = Client::connect(socket(&server)).expect("an answer");
        for number in 0..60_u8 {
            let place = u64::from(draw.below(1_000)) * 512;
            let told = match draw.below(8) {
                0 => client.flush(),
                1 => client.read(place, 8_192).map(drop),
                2 => client.ask(nbd::Command::Trim, place, 16_384).map(drop),
                3 => client.ask(nbd::Command::WriteZeroes, place, 4_096).map(drop),
                kind => client.put(place, &[number; 4_096], kind == 4),
            };
            if told.is_none() {
                break;
            }
        }
        server.cut();
        server.restore().expect("it can be built anew");
    }
    let (digest, failure) = server.stop();
    assert_eq!(failure, None);
    digest
}

fn replayed(path: &Path) -> LogReport {
    replay_log(path).expect("a log").1
}

#[test]
fn the_same_log_ends_in_the_same_state_at_every_pace() {
    let folder = Folder::new();
    for (index, (pace, cut_after)) in [
        (Pace::None, None),
        (Pace::Real(1), None),
        (Pace::Real(1), Some(CutAfter::Programs(30))),
        (Pace::None, Some(CutAfter::Programs(30))),
    ]
    .into_iter()
    .enumerate()
    {
        let options = logged(&folder, &format!("log{index}"), pace, cut_after);
        let digest = run(&options);
        let path = options.log.as_deref().expect("a log was asked for");
        let report = replayed(path);
        assert_eq!(report.digest, digest, "{pace:?} {cut_after:?}");
        assert_eq!(report.recorded_digest.as_ref(), Some(&digest));
        assert!(report.cuts >= 2 && report.records > 100 && !report.is_cut_short, "{report:?}");
        assert_eq!(replayed(path), report, "twice");
    }
}

#[test]
fn without_a_clock_the_same_requests_make_the_same_log() {
    let folder = Folder::new();
    let options = ["a", "b"].map(|name| logged(&folder, name, Pace::None, None));
    let digests = options.each_ref().map(run);
    assert_eq!(digests[0], digests[1]);
    let [first, second] =
        options.map(|options| std::fs::read(options.log.expect("a log")).expect("a file"));
    assert!(first == second, "the logs differ");
}

#[test]
fn a_log_of_a_server_that_was_killed_is_carried_out_as_far_as_it_goes() {
    let folder = Folder::new();
    let options = logged(&folder, "log", Pace::None, None);
    run(&options);
    let path = options.log.expect("a log");
    let whole = std::fs::read(&path).expect("a file");
    let records = replayed(&path).records;
    for missing in [1, 65, 200, 5_000] {
        std::fs::write(&path, &whole[..whole.len() - missing]).expect("room");
        let report = replayed(&path);
        assert!(report.is_cut_short && report.recorded_digest.is_none(), "{missing}");
        assert!(report.records <= records, "{missing}");
    }
}

/// What was answered is in the file by then: a killed server loses none of it.
#[test]
fn a_log_has_what_was_answered() {
    let folder = Folder::new();
    let options = logged(&folder, "log", Pace::None, None);
    let path = options.log.clone().expect("a log");
    let server = start(&options);
    assert_eq!(replayed(&path).records, 0);
    let mut client = Client::connect(socket(&server)).expect("an answer");
    for number in 1..20_u64 {
        client.put(number * 512, &[3; 512], number % 2 == 0).expect("written");
        assert_eq!(replayed(&path).records, number);
    }
    server.cut();
    assert_eq!(replayed(&path).cuts, 1);
}

#[test]
fn what_is_no_log_is_refused_with_place_and_reason() {
    let folder = Folder::new();
    let options = logged(&folder, "log", Pace::None, None);
    run(&options);
    let path = options.log.expect("a log");
    let whole = std::fs::read(&path).expect("a file");
    let told = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("room");
        replay_log(&path).map(drop).expect_err("no log").to_string()
    };
    let mut other = whole.clone();
    other[0] = b'N';
    assert!(told(&other).contains("this is no log of `nandlab serve`"));
    assert!(told(&whole[..10]).contains("this is no log"));
    let mut long = whole.clone();
    long[16..20].fill(0xff);
    assert!(told(&long).contains("its options take 4294967295 bytes"));
    let options_bytes = u32::from_le_bytes(*whole[16..].first_chunk().expect("four")) as usize;
    let mut unknown = whole.clone();
    unknown[20 + options_bytes] = 99;
    let error = told(&unknown);
    assert!(error.contains("record 1: kind 99 is unknown"), "{error}");
    // Damage anywhere ends in an answer.
    let mut draw = Stream::new(4, "damage");
    for _ in 0..300 {
        let mut damaged = whole.clone();
        let records = 20 + options_bytes as u32;
        let place = records + draw.below(whole.len() as u32 - records);
        damaged[place as usize] = draw.below(256) as u8;
        std::fs::write(&path, &damaged).expect("room");
        let _ = replay_log(&path);
    }
}
