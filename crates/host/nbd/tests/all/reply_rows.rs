//! Replies of the transmission, byte for byte in the numbers of `proto.md`.

use crate::support::*;
use nbd::{ErrorNumber, Export, Extent, StatusLimit, block_status, reply};

const COOKIE: u64 = 0x0102_0304_0506_0708;
const COOKIE_BYTES: &[u8; 8] = b"\x01\x02\x03\x04\x05\x06\x07\x08";

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut output = Vec::new();
    write(&mut output);
    output
}

/// Flags and type, then the payload with its length.
fn chunk(head: &[u8], payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    join(&[b"\x66\x8e\x33\xef", head, COOKIE_BYTES, &length, payload])
}

#[test]
fn simple_reply_has_16_bytes() {
    let success = written(|output| simple_session().success(output, COOKIE));
    assert_eq!(success, join(&[b"\x67\x44\x66\x98\0\0\0\0", COOKIE_BYTES]));
    let failure = written(|output| reply::simple(output, Some(ErrorNumber::NoSpace), COOKIE));
    assert_eq!(failure, join(&[b"\x67\x44\x66\x98\0\0\0\x1c", COOKIE_BYTES]));
}

#[test]
fn simple_read_has_its_data_behind_the_header() {
    let read = written(|output| simple_session().read(output, COOKIE, 512, b"abc"));
    assert_eq!(read, join(&[b"\x67\x44\x66\x98\0\0\0\0", COOKIE_BYTES, b"abc"]));
    let header = written(|output| simple_session().read_header(output, COOKIE, 512, 3));
    assert_eq!(header, read[..16]);
}

#[test]
fn structured_read_is_one_done_chunk_of_data() {
    let read = written(|output| full_session().read(output, COOKIE, 512, b"abc"));
    assert_eq!(read, chunk(b"\0\x01\0\x01", b"\0\0\0\0\0\0\x02\0abc"));
    let header = written(|output| full_session().read_header(output, COOKIE, 512, 3));
    assert_eq!(header, read[..28]);
}

#[test]
fn structured_read_in_parts_ends_with_done() {
    let parts = written(|output| {
        reply::data(output, COOKIE, 0, b"a", false);
        reply::hole(output, COOKIE, 1, 4096, false);
        reply::done(output, COOKIE);
    });
    let data = chunk(b"\0\0\0\x01", b"\0\0\0\0\0\0\0\0a");
    let hole = chunk(b"\0\0\0\x02", b"\0\0\0\0\0\0\0\x01\0\0\x10\0");
    assert_eq!(parts, join(&[&data, &hole, &chunk(b"\0\x01\0\0", b"")]));
}

#[test]
fn error_chunk_has_error_and_text() {
    let failure =
        written(|output| full_session().failure(output, ErrorNumber::Invalid, COOKIE, "no"));
    assert_eq!(failure, chunk(b"\0\x01\x80\x01", b"\0\0\0\x16\0\x02no"));
    let simple =
        written(|output| simple_session().failure(output, ErrorNumber::Invalid, COOKIE, "no"));
    assert_eq!(simple, join(&[b"\x67\x44\x66\x98\0\0\0\x16", COOKIE_BYTES]));
}

#[test]
fn error_chunk_with_a_place_ends_with_the_offset() {
    let failure = written(|output| {
        reply::error_chunk_at(output, ErrorNumber::InputOutput, COOKIE, 1 << 32, "x", false);
    });
    assert_eq!(failure, chunk(b"\0\0\x80\x02", b"\0\0\0\x05\0\x01x\0\0\0\x01\0\0\0\0"));
}

#[test]
fn text_of_an_error_is_cut_at_4096_bytes_between_letters() {
    let text = "ä".repeat(3000);
    let failure = written(|output| full_session().failure(output, ErrorNumber::Invalid, 0, &text));
    assert_eq!(failure.len(), 20 + 6 + 4096);
    let odd = format!("a{text}");
    let failure = written(|output| full_session().failure(output, ErrorNumber::Invalid, 0, &odd));
    assert_eq!(failure.len(), 20 + 6 + 4095);
}

#[test]
fn error_numbers_are_those_of_the_protocol() {
    let numbers: Vec<_> = ErrorNumber::ALL.iter().map(|one| one.number()).collect();
    assert_eq!(numbers, [1, 5, 12, 22, 28, 75, 95, 108]);
}

fn extents(lengths_and_flags: &[(u64, u32)]) -> Vec<Extent> {
    lengths_and_flags.iter().map(|&(length, flags)| Extent { length, flags }).collect()
}

/// The extents of a reply about `length` bytes from `offset` on.
fn told(
    export: &Export,
    (offset, length, only_one): (u64, u32, bool),
    given: &[(u64, u32)],
) -> Vec<(u64, u32)> {
    let limit = StatusLimit::new(export, offset, length, only_one);
    let output = written(|output| block_status(output, COOKIE, 9, &limit, extents(given)));
    assert_eq!(output, chunk(b"\0\x01\0\x05", &output[20..]));
    assert_eq!(output[20..24], [0, 0, 0, 9], "the context");
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    let pairs = output[24..].chunks(8);
    pairs.map(|one| (u64::from(number(&one[..4])), number(&one[4..]))).collect()
}

#[test]
fn status_has_context_and_extents() {
    let given = [(4096, 0), (4096, 3)];
    assert_eq!(told(&memory(""), (0, 8192, false), &given), given);
}

#[test]
fn only_the_last_extent_passes_the_asked_length() {
    let given = [(4096, 0), (1 << 20, 3), (4096, 0)];
    assert_eq!(told(&memory(""), (0, 8192, false), &given), given[..2]);
    assert_eq!(told(&memory(""), (0, 4096, false), &given), given[..1]);
}

#[test]
fn req_one_has_one_extent_within_the_asked_length() {
    assert_eq!(told(&memory(""), (0, 8192, true), &[(1 << 20, 3)]), [(8192, 3)]);
    assert_eq!(told(&memory(""), (0, 8192, true), &[(512, 3), (512, 0)]), [(512, 3)]);
    assert_eq!(told(&memory(""), (0, 8192, true), &[(512, 3), (512, 3), (1, 0)]), [(1024, 3)]);
}

#[test]
fn extents_of_no_length_are_left_out_and_equal_neighbours_joined() {
    let given = [(0, 1), (512, 0), (0, 3), (512, 0), (512, 3), (0, 0)];
    assert_eq!(told(&memory(""), (0, 4096, false), &given), [(1024, 0), (512, 3)]);
}

#[test]
fn no_extent_passes_the_end_of_the_export() {
    assert_eq!(told(&memory(""), (GIB - 4096, 512, false), &[(1 << 40, 3)]), [(4096, 3)]);
}

#[test]
fn reply_without_an_extent_tells_that_all_is_allocated() {
    assert_eq!(told(&memory(""), (0, 4096, false), &[]), [(4096, 0)]);
    assert_eq!(told(&memory(""), (0, 4096, false), &[(0, 3)]), [(4096, 0)]);
}

#[test]
fn extent_that_its_field_cannot_hold_is_cut_and_is_the_last() {
    let export = Export { size_bytes: 1 << 40, ..memory("") };
    let longest = (1 << 32) - (1 << 16);
    assert_eq!(told(&export, (0, u32::MAX, false), &[(1 << 33, 3), (512, 0)]), [(longest, 3)]);
    let halves = [(3 << 30, 3), (3 << 30, 3), (512, 0)];
    assert_eq!(told(&export, (0, u32::MAX, false), &halves), [(longest, 3)]);
    let all = u64::from(u32::MAX);
    assert_eq!(told(&export, (0, u32::MAX, false), &[(all, 3)]), [(all, 3)]);
}

#[test]
fn status_has_at_most_2_to_the_20_extents_and_no_more_than_a_payload() {
    let given: Vec<_> = (0..3 << 20).map(|index| (1, index % 2)).collect();
    let count = |export: &Export| told(export, (0, 1 << 30, false), &given).len();
    assert_eq!(count(&memory("")), 1 << 20);
    assert_eq!(count(&Export { maximum_payload_bytes: 4096, ..memory("") }), 512);
}

#[test]
#[should_panic(expected = "a chunk can hold the data")]
#[cfg(debug_assertions)]
fn chunk_of_no_data_is_a_fault_of_the_caller() {
    reply::data(&mut Vec::new(), 0, 0, &[], true);
}

#[test]
#[should_panic(expected = "a hole has a byte")]
#[cfg(debug_assertions)]
fn hole_of_no_bytes_is_a_fault_of_the_caller() {
    reply::hole(&mut Vec::new(), 0, 0, 0, true);
}
