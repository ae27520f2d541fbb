//! The client's side against the server's side, and against what no server may send.

use crate::support::*;
use nbd::client::{
    BadReply, Body, ClientHandshake, ClientStep, Failure, Negotiated, Reply, Wanted, request, write,
};
use nbd::{
    Command, ErrorNumber, Export, Extent, Handshake, StatusLimit, Step, block_status, reply,
};

/// Both sides until each has a session; `chunk_bytes` are handed over at a time.
fn negotiate(exports: &[Export], wanted: Wanted, chunk_bytes: usize) -> (ClientStep, Step) {
    let mut server = Handshake::new(exports);
    let mut client = ClientHandshake::new(wanted);
    let mut to_client = Handshake::greeting().to_vec();
    let (mut to_server, mut server_input, mut client_input) = (Vec::new(), Vec::new(), Vec::new());
    let mut server_end = Step::NeedMore;
    loop {
        let count = chunk_bytes.min(to_client.len());
        client_input.extend(to_client.drain(..count));
        let client_end = client.feed(&mut client_input, &mut to_server);
        if client_end != ClientStep::NeedMore {
            let is_all_taken = client_input.is_empty() && to_client.is_empty();
            assert!(is_all_taken || matches!(client_end, ClientStep::Close(_)));
            return (client_end, server_end);
        }
        let count = chunk_bytes.min(to_server.len());
        server_input.extend(to_server.drain(..count));
        if server_end == Step::NeedMore {
            server_end = server.feed(&mut server_input, &mut to_client);
        }
        let is_over = server_end != Step::NeedMore && to_client.is_empty();
        assert!(!is_over || client_input.len() < 200, "the client has all that it waits for");
    }
}

fn wanted() -> Wanted {
    Wanted { is_structured: true, has_allocation: true, ..Wanted::default() }
}

#[test]
fn client_and_server_agree() {
    for chunk_bytes in [1, 7, 4096] {
        let (client, server) = negotiate(&[memory("")], wanted(), chunk_bytes);
        let ClientStep::Begin(negotiated) = client else { panic!("no session but {client:?}") };
        assert_eq!(server, Step::Begin(full_session()));
        assert_eq!((negotiated.size_bytes, negotiated.flags), (GIB, 0x0ded));
        assert!(negotiated.is_structured);
        assert_eq!(negotiated.allocation_context, Some(1));
        assert_eq!(negotiated.block_sizes.expect("told").maximum_payload_bytes, 64 << 20);
    }
}

#[test]
fn client_begins_by_export_name_too() {
    let wanted = Wanted { by_export_name: true, ..Wanted::default() };
    let (client, server) = negotiate(&[memory("")], wanted, 3);
    let expected = Negotiated { size_bytes: GIB, flags: 0x0d6d, ..Negotiated::default() };
    assert_eq!(client, ClientStep::Begin(expected));
    assert_eq!(server, Step::Begin(simple_session()));
}

#[test]
fn client_tells_what_the_server_says_of_an_unknown_export() {
    let wanted = Wanted { export: "no".to_owned(), ..wanted() };
    let (client, _) = negotiate(&[memory("a")], wanted, 64);
    let ClientStep::Close(Failure::Refused { option, kind, text }) = client else {
        panic!("no refusal but {client:?}")
    };
    assert_eq!((option, kind), (7, UNKNOWN));
    assert!(text.contains("no export of this name"));
}

#[test]
fn client_refuses_what_is_no_server() {
    let mut input = b"SSH-2.0-OpenSSH_9.2p1".to_vec();
    let step = ClientHandshake::new(wanted()).feed(&mut input, &mut Vec::new());
    assert_eq!(step, ClientStep::Close(Failure::Greeting));
}

/// All replies of a stream; a read asked for four bytes.
fn parse(mut input: &[u8]) -> Result<Vec<Reply>, BadReply> {
    let mut found = Vec::new();
    while let Some((reply, taken)) = Reply::parse(input, 4096, |_| 4)? {
        found.push(reply);
        input = &input[taken..];
    }
    assert!(input.is_empty(), "all is taken");
    Ok(found)
}

#[test]
fn client_reads_every_reply_of_the_server() {
    let mut output = Vec::new();
    simple_session().read(&mut output, 1, 0, b"abcd");
    reply::simple(&mut output, Some(ErrorNumber::NoSpace), 2);
    reply::data(&mut output, 3, 512, b"ab", false);
    reply::hole(&mut output, 3, 514, 2, false);
    reply::error_chunk_at(&mut output, ErrorNumber::InputOutput, 3, 515, "bad", false);
    reply::done(&mut output, 3);
    full_session().failure(&mut output, ErrorNumber::Invalid, 4, "no");
    let limit = StatusLimit::new(&memory(""), 0, 512, false);
    let extent = Extent { length: 512, flags: 3 };
    block_status(&mut output, 5, 1, &limit, [extent]);
    let found = parse(&output).expect("all are replies");
    let error = |error, text: &str, offset| Body::Error { error, text: text.to_owned(), offset };
    let expected = [
        (1, true, Body::Simple { data: b"abcd".to_vec() }),
        (2, true, Body::SimpleError { error: 28 }),
        (3, false, Body::Data { offset: 512, data: b"ab".to_vec() }),
        (3, false, Body::Hole { offset: 514, length: 2 }),
        (3, false, error(5, "bad", Some(515))),
        (3, true, Body::None),
        (4, true, error(22, "no", None)),
        (5, true, Body::Status { context: 1, extents: vec![extent] }),
    ];
    let expected = expected.map(|(cookie, is_last, body)| Reply { cookie, is_last, body });
    assert_eq!(found, expected);
    for end in 1..output.len() {
        // A part of a stream is no error: the rest may come.
        let mut rest = &output[..end];
        while let Some((_, taken)) = Reply::parse(rest, 4096, |_| 4).expect("no error") {
            rest = &rest[taken..];
        }
    }
}

#[test]
fn client_refuses_replies_that_break_the_rules() {
    let chunk = |kind: u16, flags: u16, payload: &[u8]| {
        let (flags, kind) = (flags.to_be_bytes(), kind.to_be_bytes());
        join(&[b"\x66\x8e\x33\xef", &flags, &kind, &[0; 8], &string(payload)])
    };
    assert_eq!(parse(b"\x67\x44\x66\x99"), Err(BadReply::Magic(0x6744_6699)));
    assert_eq!(parse(&chunk(3, 1, b"")), Err(BadReply::Kind(3)));
    let long = b"\x66\x8e\x33\xef\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\x10\x01";
    assert_eq!(parse(long), Err(BadReply::TooLong(4097)));
    let broken: &[(u16, u16, &[u8])] = &[
        (0, 0, b""),
        (0, 1, b"x"),
        (1, 1, &[0; 8]),
        (2, 1, &[0; 12]),
        (2, 1, &[1; 13]),
        (5, 1, &[1; 4]),
        (5, 1, &[1; 13]),
        (5, 1, &[0; 12]),
        (0x8001, 1, &[0; 6]),
        (0x8001, 1, b"\0\0\0\x05\0\x02x"),
        (0x8002, 1, b"\0\0\0\x05\0\0"),
    ];
    for (kind, flags, payload) in broken {
        assert_eq!(parse(&chunk(*kind, *flags, payload)), Err(BadReply::Payload(*kind)));
    }
    let unknown = parse(&chunk(0x8009, 1, b"\0\0\0\x05\0\0more")).expect("an error like others");
    assert!(matches!(unknown[0].body, Body::Error { error: 5, .. }));
}

#[test]
fn requests_of_the_client_are_those_of_the_server() {
    let mut output = Vec::new();
    request(Command::Trim, 7, 512, 1024).write(&mut output);
    write(&mut output, 7, 4096, b"abc", true);
    let expected = join(&[&request_bytes(4, 512, 1024, 0), &request_bytes(1, 4096, 3, 1), b"abc"]);
    assert_eq!(output, expected);
}
