//! What clients see, and what they may do to a server.

use crate::client::{Answer, Client};
use crate::support::{Folder, core, options, socket, spec, start};
use nbd::{Command, Handshake, command_flag};
use random::Stream;
use serve::{Address, Pace, Server, ServerOptions};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const BYTES: u64 = 4 << 20;

fn served(folder: &Folder, pace: Pace) -> Server {
    start(&options(folder, core(spec("emmc-5.1-64gb", BYTES, &[]), None), pace))
}

#[test]
fn what_was_written_is_read_through_every_connection() {
    let folder = Folder::new();
    for pace in [Pace::None, Pace::Real(1)] {
        let server = served(&folder, pace);
        let [mut one, mut other] =
            [1, 2].map(|_| Client::connect(socket(&server)).expect("an answer"));
        let bytes: Vec<u8> = (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect();
        one.put(512, &bytes, false).expect("written");
        assert_eq!(other.read(512, bytes.len() as u32).as_deref(), Some(&bytes[..]));
        assert_eq!(other.read(0, 512), Some(vec![0; 512]));
        one.ask(Command::WriteZeroes, 1_024, 4_096).expect("zeros");
        assert_eq!(other.read(1_024, 4_096), Some(vec![0; 4_096]));
        assert_eq!(other.ask(Command::Cache, 0, 4_096), Some(Answer::Done(Vec::new())));
        let totals = server.statistics().totals;
        assert_eq!((totals.requests[1], totals.requests[0]), (2, 4));
        assert_eq!(server.stop().1, None);
    }
}

/// The rows that depend on what a server offers; the crate `nbd` has a test for each row of the protocol.
#[test]
fn requests_that_cannot_be_carried_out_get_an_error_and_the_connection_lives() {
    let folder = Folder::new();
    let server = served(&folder, Pace::None);
    let mut client = Client::connect(socket(&server)).expect("an answer");
    let (invalid, no_space, no_memory, not_supported) = (22, 28, 12, 95);
    for (command, flags, offset, length, error) in [
        (Command::Read, 0, BYTES, 512, invalid),
        (Command::Read, 0, 0, 0, invalid),
        (Command::Read, 0, 100, 512, invalid),
        (Command::Trim, 0, BYTES, 512, invalid),
        (Command::WriteZeroes, command_flag::FAST_ZERO, 0, 512, not_supported),
        (Command::Flush, 0, 512, 0, invalid),
    ] {
        client.send(command, flags, offset, length, &[]).expect("sent");
        assert_eq!(client.reply().expect("an answer").1, Answer::Error(error), "{command:?}");
    }
    client.send(Command::Write, 0, BYTES, 512, &[0; 512]).expect("sent");
    assert_eq!(client.reply().expect("an answer").1, Answer::Error(no_space));
    // Too long to be kept: the payload is dropped, and what follows is understood.
    let long = nbd::MAXIMUM_PAYLOAD_BYTES + 512;
    let folder = Folder::new();
    let server =
        start(&options(&folder, core(spec("emmc-5.1-64gb", 64 << 20, &[]), None), Pace::None));
    let mut client = Client::connect(socket(&server)).expect("an answer");
    client.send(Command::Write, 0, 0, long, &vec![7; long as usize]).expect("sent");
    assert_eq!(client.reply().expect("an answer").1, Answer::Error(no_memory));
    assert_eq!(client.read(0, 512), Some(vec![0; 512]));
    assert_eq!(server.status().broken, 0);
}

/// Replies of a queue leave in the order in which the device is done, and in its time.
#[test]
fn latencies_are_those_of_the_device() {
    let folder = Folder::new();
    let server = served(&folder, Pace::Real(50));
    let mut client = Client::connect(socket(&server)).expect("an answer");
    client.put(0, &[1; 4_096], true).expect("written");
    #[allow(clippy::disallowed_types, reason = "the host's clock is what is tested")]
    let begin = std::time::Instant::now();
    client.read(0, 4_096).expect("read");
    let took = begin.elapsed();
    let simulated_ns = server.statistics().totals.latency_ns[0][2];
    // Fifty times slower than the device: some milliseconds, which even a busy machine keeps.
    assert!(simulated_ns > 50_000, "{simulated_ns}");
    assert!(took >= Duration::from_nanos(50 * simulated_ns), "{took:?} {simulated_ns}");
}

#[test]
fn clients_that_vanish_or_talk_nonsense_leave_nothing_behind() {
    let folder = Folder::new();
    let server = served(&folder, Pace::None);
    let mut draw = Stream::new(2, "nonsense");
    let threads = || std::fs::read_dir("/proc/self/task").expect("this process").count();
    let files = || std::fs::read_dir("/proc/self/fd").expect("this process").count();
    let (threads_before, files_before) = (threads(), files());
    for number in 0..10_000_u32 {
        // More than a listening socket holds back would make it wait.
        let mut stream = loop {
            match UnixStream::connect(socket(&server)) {
                Ok(stream) => break stream,
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        match number % 5 {
            0 => {}
            1 => {
                let bytes: Vec<u8> = (0..draw.below(64)).map(|_| draw.below(256) as u8).collect();
                let _ = stream.write_all(&bytes);
            }
            2 => {
                let _ = stream.write_all(&3_u32.to_be_bytes());
                let _ = stream.write_all(&Handshake::greeting());
            }
            3 => {
                let mut greeting = [0; 18];
                let _ = stream.read_exact(&mut greeting);
            }
            _ => {
                drop(stream);
                if let Some(mut client) = Client::connect(socket(&server)) {
                    // Half of a write, and then nothing.
                    let _ = client.send(Command::Write, 0, 0, 4_096, &[0; 100]);
                }
            }
        }
    }
    // Threads of the last clients may still be ending.
    for _ in 0..500 {
        if server.status().connections == 0 && threads() <= threads_before + 1 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(server.status().connections, 0);
    // Other tests run beside this one, so only a leak of one for each connection is seen.
    assert!(threads() < threads_before + 200, "{} {threads_before}", threads());
    assert!(files() < files_before + 200, "{} {files_before}", files());
    assert!(server.status().broken > 100, "{}", server.status().broken);
    // It still serves.
    let mut client = Client::connect(socket(&server)).expect("an answer");
    assert_eq!(client.read(0, 512), Some(vec![0; 512]));
}

#[test]
fn a_place_that_is_taken_or_open_to_all_is_refused() {
    let folder = Folder::new();
    let server = served(&folder, Pace::None);
    let device = || core(spec("emmc-5.1-64gb", BYTES, &[]), None);
    let told = |options: &ServerOptions| {
        Server::start(options).map(drop).expect_err("refused").to_string()
    };
    let again = options(&folder, device(), Pace::None);
    assert!(told(&again).contains("another server answers there"), "{}", told(&again));
    drop(server);
    let left = std::os::unix::net::UnixListener::bind(folder.path("s")).expect("a socket");
    drop(left);
    assert!(
        told(&again).contains("no server answers there: remove the socket"),
        "{}",
        told(&again)
    );
    let open = ServerOptions {
        listen: vec!["tcp:0.0.0.0:0".parse().expect("an address")],
        ..options(&folder, device(), Pace::None)
    };
    assert!(told(&open).contains("can be reached from other machines"), "{}", told(&open));
    let nowhere = ServerOptions { listen: Vec::new(), ..open.clone() };
    assert!(told(&nowhere).contains("no address to listen at"));
    let twice = ServerOptions {
        exports: vec!["a".into(), "a".into()],
        listen: vec![Address::Unix(folder.path("t"))],
        ..open
    };
    assert!(told(&twice).contains("two exports are named `a`"), "{}", told(&twice));
    // A file of somebody's is not called a socket that was left.
    std::fs::write(folder.path("t"), "kept").expect("room");
    let file = ServerOptions {
        listen: vec![Address::Unix(folder.path("t"))],
        ..options(&folder, device(), Pace::None)
    };
    assert!(told(&file).contains("a file of that name exists"), "{}", told(&file));
    assert_eq!(std::fs::read(folder.path("t")).expect("a file"), b"kept");
    std::fs::remove_file(folder.path("t")).expect("it is there");
    std::fs::write(folder.path("log"), "kept").expect("room");
    let logged = ServerOptions { log: Some(folder.path("log")), exports: Vec::new(), ..twice };
    assert!(told(&logged).contains("log: File exists"), "{}", told(&logged));
    assert_eq!(std::fs::read(folder.path("log")).expect("a file"), b"kept");
    // A start that fails leaves neither a socket nor a log behind.
    let fails = ServerOptions {
        log: Some(folder.path("new")),
        exports: vec!["a".into(), "a".into()],
        listen: vec![Address::Unix(folder.path("t"))],
        ..options(&folder, device(), Pace::None)
    };
    assert!(told(&fails).contains("two exports"), "{}", told(&fails));
    assert!(!folder.path("new").exists());
    assert!(!folder.path("t").exists());
}

/// What was answered before a mistake of the client is as durable as ever.
#[test]
fn a_write_that_was_answered_before_nonsense_survives_a_cut() {
    let folder = Folder::new();
    let server = served(&folder, Pace::None);
    for number in 1..6_u8 {
        let mut client = Client::connect(socket(&server)).expect("an answer");
        let mut bytes = Vec::new();
        nbd::client::write(&mut bytes, 7, 0, &[number; 512], true);
        bytes.extend_from_slice(&[0xff; 28]);
        client.stream.write_all(&bytes).expect("sent");
        assert_eq!(client.reply(), Some((7, Answer::Done(Vec::new()))));
        assert_eq!(client.reply(), None);
        server.cut();
        server.restore().expect("it can be built anew");
        let mut client = Client::connect(socket(&server)).expect("an answer");
        assert_eq!(client.read(0, 512), Some(vec![number; 512]));
    }
    assert_eq!(server.status().broken, 5);
}

/// A request of gigabytes is carried out in pieces, between which others have their turn.
#[test]
fn a_long_request_does_not_keep_others_waiting() {
    let folder = Folder::new();
    let device = spec("emmc-5.1-64gb", 2 << 30, &[]);
    let server = start(&options(&folder, core(device, None), Pace::None));
    let [mut long, mut short] =
        [1, 2].map(|_| Client::connect(socket(&server)).expect("an answer"));
    short.put(0, &[1; 512], true).expect("written");
    let cookie = long.send(Command::WriteZeroes, 0, 0, 2 << 30, &[]).expect("sent");
    let mut reads = 0;
    // The whole takes hundreds of pieces, so some reads come between.
    while short.read(0, 512).is_some_and(|bytes| bytes != [1; 512]) && reads < 5 {
        reads += 1;
    }
    for _ in 0..20 {
        short.read(4_096, 512).expect("read");
    }
    assert!(server.statistics().totals.requests[1] < 250, "the zeros were written at once");
    assert_eq!(long.reply(), Some((cookie, Answer::Done(Vec::new()))));
    assert_eq!(short.read(0, 512), Some(vec![0; 512]));
}

/// A client that asks and takes no reply costs little memory and no time of others.
#[test]
fn a_client_that_takes_no_replies_is_not_read_from() {
    let folder = Folder::new();
    let server = served(&folder, Pace::None);
    let mut greedy = Client::connect(socket(&server)).expect("an answer");
    greedy.stream.set_nonblocking(true).expect("a socket");
    let mut sent = 0;
    while greedy.send(Command::Read, 0, 0, 1 << 20, &[]).is_some() && sent < 100_000 {
        sent += 1;
    }
    assert!(sent < 100_000, "requests without end were taken");
    let mut other = Client::connect(socket(&server)).expect("an answer");
    for _ in 0..100 {
        other.read(0, 512).expect("read");
    }
    // 64 MiB of replies and a buffer of requests.
    let read = server.statistics().totals.bytes[0];
    assert!(read < 200 << 20, "{read} bytes were read for a client that takes none");
}
