//! Random and damaged streams: no panic, and no more memory than the bounds.

use crate::support::*;
use nbd::client::{ClientHandshake, ClientStep, Reply, Wanted};
use nbd::{Extent, Handshake, INPUT_BYTES_MAX, Request, Session, StatusLimit, Step, block_status};

const STREAMS: usize = 100_000;

/// Bytes that come at a time; a server reads no more.
const PIECE_BYTES: usize = 4096;

/// Valid streams to damage.
fn seeds() -> Vec<Vec<u8>> {
    let allocation = meta(10, "", &["base:allocation", "qemu:"]);
    let requests: Vec<u8> = (0..8).flat_map(|command| request_bytes(command, 512, 8, 0)).collect();
    vec![
        [flags(), structured(), allocation, describe(7, "", &[3, 1, 2]), requests.clone()].concat(),
        [flags(), option(3, b""), describe(6, "a", &[1]), meta(9, "", &[]), option(2, b"")]
            .concat(),
        [vec![0, 0, 0, 1], option(1, b""), requests].concat(),
        [flags(), option(5, b""), option(99, &[7; 300]), structured(), go()].concat(),
    ]
}

/// Numbers at which lengths and offsets tend to fail.
const NUMBERS: [u32; 8] = [0, 1, 4096, 4097, 65_536, 65_537, 0x7fff_ffff, u32::MAX];

fn damaged(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    if random.below(8) == 0 {
        let count = random.below(200);
        return (0..count).map(|_| random.next() as u8).collect();
    }
    let mut stream = seeds[random.below(seeds.len())].clone();
    for _ in 0..random.below(5) {
        let at = random.below(stream.len());
        match random.below(5) {
            0 => stream[at] ^= 1 << random.below(8),
            1 => stream[at] = random.next() as u8,
            2 => stream.truncate(at.max(1)),
            3 => {
                let number = NUMBERS[random.below(NUMBERS.len())].to_be_bytes();
                let count = number.len().min(stream.len() - at);
                stream[at..at + count].copy_from_slice(&number[..count]);
            }
            _ => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len());
                let tail = other[from..].to_vec();
                stream.splice(at..at, tail);
            }
        }
    }
    stream
}

/// How far the streams came.
#[derive(Debug, Default)]
struct Reached {
    sessions: usize,
    closed: usize,
    unfinished: usize,
    checked: usize,
    refused: usize,
}

fn transmit(session: Session, input: &[u8], reached: &mut Reached) {
    let export = memory("");
    let mut rest = input;
    let mut output = Vec::new();
    while let Some((header, behind)) = rest.split_first_chunk() {
        let Ok(request) = Request::parse(header) else { return };
        if session.must_close(&request, &export) {
            return;
        }
        output.clear();
        match session.check_with_reason(&request, &export) {
            Ok(_) => {
                reached.checked += 1;
                let end = request.offset.checked_add(u64::from(request.length));
                assert!(request.command == 2 || end.is_some_and(|end| end <= GIB), "{request:?}");
                let limit = StatusLimit::new(&export, request.offset, request.length, false);
                let extent = Extent { length: request.cookie, flags: request.cookie as u32 };
                block_status(&mut output, request.cookie, 1, &limit, [extent; 3]);
            }
            Err(refusal) => {
                reached.refused += 1;
                session.failure(&mut output, refusal.error, request.cookie, refusal.reason);
            }
        }
        assert!(output.len() < 300);
        rest = behind.get(request.payload_bytes() as usize..).unwrap_or_default();
    }
}

#[test]
fn damaged_streams_of_clients_end_in_bounds() {
    let seeds = seeds();
    let mut random = Random(1);
    let mut reached = Reached::default();
    for number in 0..STREAMS {
        let stream = damaged(&mut random, &seeds);
        let mut handshake = Handshake::new([memory("")].as_slice());
        let (mut input, mut output) = (Vec::new(), Vec::new());
        let mut end = Step::NeedMore;
        let mut pieces = stream.chunks(1 + random.below(PIECE_BYTES));
        while end == Step::NeedMore
            && let Some(piece) = pieces.next()
        {
            input.extend_from_slice(piece);
            end = handshake.feed(&mut input, &mut output);
            assert!(input.capacity() <= 2 * (INPUT_BYTES_MAX + PIECE_BYTES), "stream {number}");
            assert!(output.capacity() < 1 << 20, "stream {number}");
        }
        match end {
            Step::NeedMore => reached.unfinished += 1,
            Step::Close(_) => reached.closed += 1,
            Step::Begin(session) => {
                reached.sessions += 1;
                input.extend(pieces.flatten());
                transmit(session, &input, &mut reached);
            }
        }
    }
    // Damage that ended every stream at its first bytes would show nothing.
    let least = STREAMS / 50;
    let Reached { sessions, closed, unfinished, checked, refused } = reached;
    assert!(
        [sessions, closed, unfinished, checked, refused].iter().all(|one| *one > least),
        "{reached:?}"
    );
}

#[test]
fn endless_streams_of_options_end_in_bounds() {
    let mut random = Random(2);
    let options = [option(3, b""), structured(), describe(6, "", &[1, 2, 3]), option(50, b"")];
    for _ in 0..20 {
        let mut handshake = Handshake::new([memory("")].as_slice());
        let (mut input, mut output) = (flags(), Vec::new());
        let mut sent_bytes = 0_usize;
        while handshake.feed(&mut input, &mut output) == Step::NeedMore {
            sent_bytes += options[0].len();
            assert!(sent_bytes < 1 << 20, "a client cannot go on for ever");
            input.extend(&options[random.below(options.len())]);
        }
        assert!(output.len() < 300 << 10);
    }
}

#[test]
fn damaged_streams_of_servers_end_without_a_panic() {
    let wanted = Wanted { is_structured: true, has_allocation: true, ..Wanted::default() };
    let parts = [structured(), meta(10, "", &["base:allocation"]), describe(7, "", &[3])];
    let mut good = Handshake::greeting().to_vec();
    good.extend(ask(&parts).output);
    let mut replies = Vec::new();
    full_session().read(&mut replies, 1, 0, b"data");
    simple_session().read(&mut replies, 2, 0, b"data");
    block_status(
        &mut replies,
        3,
        1,
        &StatusLimit::new(&memory(""), 0, 512, false),
        [Extent { length: 512, flags: 3 }],
    );
    let mut random = Random(3);
    let (mut begun, mut parsed) = (0, 0);
    for _ in 0..STREAMS {
        let mut input = damaged(&mut random, std::slice::from_ref(&good));
        let step = ClientHandshake::new(wanted.clone()).feed(&mut input, &mut Vec::new());
        begun += usize::from(matches!(step, ClientStep::Begin(_)));
        let stream = damaged(&mut random, std::slice::from_ref(&replies));
        let mut rest = stream.as_slice();
        while let Ok(Some((_, taken))) = Reply::parse(rest, 4096, |_| 4) {
            rest = &rest[taken..];
            parsed += 1;
        }
    }
    assert!(begun > STREAMS / 20 && parsed > STREAMS / 20, "{begun} {parsed}");
}
