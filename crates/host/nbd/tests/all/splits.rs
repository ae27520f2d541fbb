//! However a stream is cut, the answers are the same.

use crate::support::*;
use nbd::{Export, Handshake, INPUT_BYTES_MAX, Request, Session, Step};
use proptest::prelude::*;

/// A server without a device: what it sends, and how it ends.
#[derive(Debug, PartialEq, Eq)]
struct Answered {
    end: Step,
    output: Vec<u8>,
    judged: Vec<String>,
    rest: Vec<u8>,
}

fn serve(exports: &[Export], pieces: &[&[u8]]) -> Answered {
    let mut handshake = Handshake::new(exports);
    let (mut input, mut output, mut judged) = (Vec::new(), Vec::new(), Vec::new());
    let mut end = Step::NeedMore;
    for piece in pieces {
        input.extend_from_slice(piece);
        if end == Step::NeedMore {
            end = handshake.feed(&mut input, &mut output);
            assert!(end != Step::NeedMore || input.len() <= INPUT_BYTES_MAX);
        }
        if let Step::Begin(session) = end {
            transmit(session, exports, &mut input, &mut output, &mut judged);
        }
    }
    Answered { end, output, judged, rest: input }
}

fn transmit(
    session: Session,
    exports: &[Export],
    input: &mut Vec<u8>,
    output: &mut Vec<u8>,
    judged: &mut Vec<String>,
) {
    let export = &exports[session.export];
    while let Some(header) = input.first_chunk() {
        let Ok(request) = Request::parse(header) else { return };
        let taken = 28 + request.payload_bytes() as usize;
        if session.must_close(&request, export) || input.len() < taken {
            return;
        }
        let answer = session.check_with_reason(&request, export);
        if let Err(refusal) = answer {
            session.failure(output, refusal.error, request.cookie, refusal.reason);
        }
        judged.push(format!("{request:?} {answer:?}"));
        input.drain(..taken);
    }
}

fn part() -> impl Strategy<Value = Vec<u8>> {
    let name = prop::sample::select(vec!["", "a", "b", "no"]);
    let infos = prop::collection::vec(0..6_u16, 0..4);
    let query = prop::sample::select(vec!["base:allocation", "base:", "qemu:", "x"]);
    let queries = prop::collection::vec(query, 0..4);
    prop_oneof![
        3 => Just(structured()),
        2 => Just(option(3, b"")),
        2 => (name.clone(), infos).prop_map(|(name, infos)| describe(6, name, &infos)),
        3 => (9..11_u32, name, queries).prop_map(|(number, name, queries)| {
            meta(number, name, &queries)
        }),
        1 => (0..20_u32, prop::collection::vec(any::<u8>(), 0..40))
            .prop_filter("EXPORT_NAME and ABORT end it", |(number, _)| !(1..3).contains(number))
            .prop_map(|(number, data)| option(number, &data)),
    ]
}

fn request_with_payload() -> impl Strategy<Value = Vec<u8>> {
    (0..10_u16, 0..3 * GIB / 2, 0..3000_u32, 0..32_u16).prop_map(
        |(command, offset, length, flags)| {
            let mut bytes = request_bytes(command, offset, length, flags).to_vec();
            if command == 1 {
                bytes.resize(28 + length as usize, 0x25);
            }
            bytes
        },
    )
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let ends =
        vec![go(), describe(7, "b", &[3]), option(1, b"a"), option(2, b""), option(1, b"no")];
    (
        prop::sample::select(vec![0_u8, 1, 2, 3, 3, 3, 3, 4]),
        prop::collection::vec(part(), 0..8),
        prop::sample::select(ends),
        prop::collection::vec(request_with_payload(), 0..8),
    )
        .prop_map(|(flags, parts, end, requests)| {
            join(&[&[0, 0, 0, flags], &parts.concat(), &end, &requests.concat()])
        })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn one_cut_anywhere_changes_nothing(stream in stream(), places in prop::collection::vec(any::<prop::sample::Index>(), 40)) {
        let exports = [memory("a"), memory("b")];
        let whole = serve(&exports, &[&stream]);
        for place in places {
            let (front, back) = stream.split_at(place.index(stream.len()));
            prop_assert_eq!(&serve(&exports, &[front, back]), &whole);
        }
    }

    #[test]
    fn many_pieces_change_nothing(stream in stream(), piece_bytes in 1..60_usize) {
        let exports = [memory("a"), memory("b")];
        let pieces: Vec<_> = stream.chunks(piece_bytes).collect();
        prop_assert_eq!(serve(&exports, &pieces), serve(&exports, &[&stream]));
    }
}

#[test]
fn streams_reach_what_they_are_for() {
    // All of these would hold for a server that closes at once, too.
    let exports = [memory("a"), memory("b")];
    let parts = [flags(), structured(), go(), request_bytes(0, 0, 0, 0).to_vec()];
    let answered = serve(&exports, &[&parts.concat()]);
    assert!(matches!(answered.end, Step::Begin(_)));
    assert_eq!((answered.judged.len(), answered.rest.len()), (1, 0));
}
