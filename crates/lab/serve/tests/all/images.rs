//! A device that is kept in an image outlives its servers, however they end.

use crate::client::Client;
use crate::support::{Folder, core, options, socket, spec, start};
use random::Stream;
use serve::{CutAfter, Pace, Server, ServerOptions, image_options};
use std::path::PathBuf;

const PAGE: usize = 4_096;
const PAGES: u64 = 700;

fn kept(folder: &Folder, pace: Pace, cut_after: Option<CutAfter>) -> ServerOptions {
    let device = spec("emmc-5.1-64gb", 4 << 20, &[]);
    ServerOptions {
        image: Some(folder.path("image")),
        ..options(folder, core(device, cut_after), pace)
    }
}

fn image(options: &ServerOptions) -> PathBuf {
    options.image.clone().expect("an image was asked for")
}

/// What a client wrote last to each page; 0 is nothing.
struct Pages(Vec<u8>);

impl Pages {
    fn new() -> Self {
        Self(vec![0; PAGES as usize])
    }

    /// Writes of a client, of which few are flushed.
    fn write(&mut self, server: &Server, draw: &mut Stream, count: u32) {
        let mut client = Client::connect(socket(server)).expect("an answer");
        for _ in 0..count {
            let (page, number) = (draw.below(PAGES as u32), 1 + draw.below(255) as u8);
            let place = u64::from(page) * PAGE as u64;
            client.put(place, &[number; PAGE], draw.below(9) == 0).expect("written");
            self.0[page as usize] = number;
            if draw.below(30) == 0 {
                client.flush().expect("flushed");
            }
        }
    }

    fn check(&self, server: &Server) {
        let mut client = Client::connect(socket(server)).expect("an answer");
        for (page, number) in (0..PAGES).zip(&self.0) {
            let bytes = client.read(page * PAGE as u64, PAGE as u32).expect("read");
            assert!(bytes == [*number; PAGE], "page {page} holds {} for {number}", bytes[0]);
        }
    }
}

fn stop(server: Server) -> String {
    let (digest, failure) = server.stop();
    assert_eq!(failure, None);
    digest
}

#[test]
fn what_was_answered_is_there_in_the_next_session() {
    for pace in [Pace::None, Pace::Real(1)] {
        let folder = Folder::new();
        let options = kept(&folder, pace, None);
        let (mut pages, mut draw) = (Pages::new(), Stream::new(2, "images"));
        let (mut now_ns, mut most_erases) = (0, 0);
        for _ in 0..4 {
            let server = start(&options);
            let status = server.status();
            assert!(status.is_on && status.now_ns >= now_ns, "time goes on");
            pages.check(&server);
            pages.write(&server, &mut draw, 400);
            pages.check(&server);
            let statistics = server.statistics();
            assert_eq!(statistics.totals.requests[1], 400, "what is told is of one session");
            let (_, _, most) = statistics.erases.expect("flash");
            assert!(most >= most_erases, "wear stays: {most} after {most_erases}");
            (now_ns, most_erases) = (server.status().now_ns, most);
            stop(server);
            assert!(!folder.path("image.part").exists());
        }
        assert!(most_erases > 0, "the device was never cleaned");
    }
}

/// A server that is killed leaves the file as it is at that moment.
#[test]
fn a_server_that_was_killed_loses_nothing_that_it_answered() {
    let folder = Folder::new();
    let options = kept(&folder, Pace::None, None);
    let (mut pages, mut draw) = (Pages::new(), Stream::new(3, "images"));
    for round in 0..5 {
        let server = start(&options);
        pages.check(&server);
        pages.write(&server, &mut draw, 50 * round);
        let killed = std::fs::read(image(&options)).expect("the image");
        // It goes on for a while, and none of that is in the file.
        Pages::new().write(&server, &mut draw, 20);
        stop(server);
        std::fs::write(image(&options), &killed).expect("room");
        if round % 2 == 1 {
            // It was killed while it wrote a record.
            let torn = [&killed, &[2_u8, 9, 9, 9, 0, 0, 0] as &[u8]].concat();
            std::fs::write(image(&options), torn).expect("room");
        }
    }
    let server = start(&options);
    pages.check(&server);
}

#[test]
fn a_planned_cut_is_a_matter_of_one_session() {
    let folder = Folder::new();
    let mut pages = Pages::new();
    let server = start(&kept(&folder, Pace::None, Some(CutAfter::Flushes(1))));
    let mut client = Client::connect(socket(&server)).expect("an answer");
    for (page, number) in (0..20_u64).zip(&mut pages.0) {
        *number = 7;
        client.put(page * PAGE as u64, &[7; PAGE], false).expect("written");
    }
    client.flush().expect("flushed");
    let mut wait = 0;
    while server.status().is_on && wait < 1_000 {
        std::thread::sleep(std::time::Duration::from_millis(5));
        wait += 1;
    }
    assert!(!server.status().is_on, "the cut was planned");
    stop(server);
    // The next one has power, and what was flushed.
    for _ in 0..2 {
        let server = start(&kept(&folder, Pace::None, None));
        assert_eq!((server.status().is_on, server.status().outage.is_none()), (true, true));
        pages.check(&server);
        let mut client = Client::connect(socket(&server)).expect("an answer");
        client.flush().expect("no cut is planned");
        stop(server);
    }
}

/// The supply failed in an operation of the chips, and the server was killed before it took notice.
#[test]
fn a_cut_that_no_server_noticed_is_one_all_the_same() {
    let folder = Folder::new();
    let options = kept(&folder, Pace::None, Some(CutAfter::Programs(40)));
    let mut pages = Pages::new();
    let server = start(&options);
    let mut client = Client::connect(socket(&server)).expect("an answer");
    let mut written = 0;
    while client.put(written * PAGE as u64, &[9; PAGE], true).is_some() {
        pages.0[written as usize] = 9;
        written += 1;
    }
    assert!(written > 5 && written < PAGES, "{written} pages before the cut");
    let mut wait = 0;
    while server.status().is_on && wait < 1_000 {
        std::thread::sleep(std::time::Duration::from_millis(5));
        wait += 1;
    }
    let mut file = std::fs::read(image(&options)).expect("the image");
    // The record of the cut: its frame, its kind and its time.
    assert_eq!(file[file.len() - 9], 9);
    file.truncate(file.len() - 9 - 12);
    stop(server);
    std::fs::write(image(&options), file).expect("room");
    let server = start(&kept(&folder, Pace::None, None));
    let mut client = Client::connect(socket(&server)).expect("an answer");
    for (page, number) in (0..PAGES).zip(&pages.0).filter(|(_, number)| **number == 9) {
        let bytes = client.read(page * PAGE as u64, PAGE as u32).expect("read");
        assert!(bytes == [*number; PAGE], "page {page} was acknowledged with FUA");
    }
}

#[test]
fn the_same_sessions_make_the_same_image() {
    let run = || {
        let folder = Folder::new();
        let options = kept(&folder, Pace::None, None);
        let mut draw = Stream::new(5, "images");
        let digests = [0, 1].map(|_| {
            let server = start(&options);
            Pages::new().write(&server, &mut draw, 300);
            stop(server)
        });
        (digests, std::fs::read(image(&options)).expect("the image"))
    };
    let (first, second) = (run(), run());
    assert_eq!(first.0, second.0);
    assert!(first.1 == second.1, "the images differ");
}

fn refused(options: &ServerOptions) -> String {
    Server::start(options).map(drop).expect_err("refused").to_string()
}

#[test]
fn an_image_that_cannot_be_had_is_refused_with_place_and_reason() {
    let folder = Folder::new();
    let mut options = kept(&folder, Pace::None, None);
    let path = image(&options);
    assert!(image_options(&path).expect("no file").is_none());
    let server = start(&options);
    let mut second =
        ServerOptions { listen: vec![serve::Address::Unix(folder.path("t"))], ..options.clone() };
    let told = refused(&second);
    assert!(told.contains("image: another server has this image open: stop that one"), "{told}");
    stop(server);
    assert_eq!(
        image_options(&path).expect("an image").expect("a file").device,
        options.core.device
    );
    second.core.device = spec("emmc-5.1-64gb", 4 << 20, &[("cache.bytes", "0")]);
    let told = refused(&second);
    assert!(
        told.contains("holds another device: cache.bytes is ") && told.contains(", not 0: "),
        "{told}"
    );
    options.log = Some(folder.path("log"));
    let told = refused(&options);
    assert!(told.starts_with("--log begins with a new device"), "{told}");
    assert!(!folder.path("log").exists());
    options.log = None;
    std::fs::write(&path, "no image at all, but long enough").expect("room");
    let told = refused(&options);
    assert!(told.contains("this is no image of `nandlab serve`"), "{told}");
    options.image = Some(folder.path("none/image"));
    let told = refused(&options);
    assert!(told.contains("none/image: No such file or directory"), "{told}");
}

#[test]
fn damage_of_the_state_is_told_and_never_served() {
    let folder = Folder::new();
    let options = kept(&folder, Pace::None, None);
    let path = image(&options);
    let server = start(&options);
    Pages::new().write(&server, &mut Stream::new(6, "images"), 100);
    stop(server);
    let whole = std::fs::read(&path).expect("the image");
    let options_bytes = u32::from_le_bytes(*whole[16..].first_chunk().expect("four")) as usize;
    let state = 20 + options_bytes;
    let mut draw = Stream::new(7, "damage");
    for _ in 0..200 {
        let mut damaged = whole.clone();
        let place = state + draw.below((whole.len() - state) as u32) as usize;
        damaged[place] ^= 1 << draw.below(8);
        std::fs::write(&path, &damaged).expect("room");
        let told = refused(&options);
        assert!(told.contains("image: the image is damaged: "), "{told}");
        let length = state + draw.below((whole.len() - state) as u32) as usize;
        std::fs::write(&path, &whole[..length]).expect("room");
        let told = refused(&options);
        assert!(told.contains("the file ends") || told.contains("failed to fill"), "{told}");
    }
}

/// A record that is damaged must not take those behind it with it.
#[test]
fn damage_of_the_calls_is_told_and_cuts_nothing_off() {
    let folder = Folder::new();
    let options = kept(&folder, Pace::None, None);
    let path = image(&options);
    let server = start(&options);
    let begin = std::fs::metadata(&path).expect("the image").len() as usize;
    Pages::new().write(&server, &mut Stream::new(8, "images"), 40);
    let whole = std::fs::read(&path).expect("the image");
    stop(server);
    let mut draw = Stream::new(9, "damage");
    for _ in 0..100 {
        // Not in the last record: that may be one that was never finished.
        let place = begin + draw.below((whole.len() - PAGE - 100 - begin) as u32) as usize;
        let mut damaged = whole.clone();
        damaged[place] ^= 1 << draw.below(8);
        std::fs::write(&path, &damaged).expect("room");
        let told = refused(&options);
        assert!(told.contains("image: the image is damaged: at byte "), "{told}");
        assert_eq!(std::fs::read(&path).expect("the image"), damaged, "it is left as it was");
    }
}
