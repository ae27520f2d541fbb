//! What nbdkit 1.32.5 with `memory 1G` answers, as recorded: each row is a test of its own.
//!
//! Departures: an error of any command is a chunk if replies are structured, and only names that exist are
//! exports. Extents of a status end with the export.

use crate::support::*;
use nbd::{ErrorNumber, Reason, Request, Step};

/// Options and the type of the last reply.
macro_rules! options {
    ($($name:ident: $parts:expr => $kind:expr,)*) => {
        $(#[test]
        fn $name() {
            assert_eq!(ask(&$parts).kinds().last().expect("a reply").1, $kind);
        })*
    };
}

options! {
    unknown_option_is_unsupported: [option(99, b"abc")] => UNSUPPORTED,
    peek_export_is_unsupported: [option(4, b"")] => UNSUPPORTED,
    extended_headers_are_unsupported: [option(11, b"")] => UNSUPPORTED,
    list_with_data_is_invalid: [option(3, b"a")] => INVALID,
    starttls_is_against_the_policy: [option(5, b"")] => POLICY,
    starttls_with_data_is_invalid: [option(5, b"a")] => INVALID,
    structured_reply_with_data_is_invalid: [option(8, b"x")] => INVALID,
    structured_reply_twice_is_fine: [structured(), structured()] => 1,
    list_meta_before_structured_reply_is_fine: [meta(9, "", &[])] => 1,
    go_with_a_name_that_is_shorter_than_it_says_is_invalid:
        [option(7, b"\0\0\0\x64abc\0\0")] => INVALID,
    go_with_a_name_that_is_longer_than_it_says_is_invalid:
        [option(7, b"\0\0\0\x01abc\0\0")] => INVALID,
}

#[test]
fn option_of_100_mib_closes() {
    let header = join(&[OPTION_MAGIC, &7_u32.to_be_bytes(), &(100_u32 << 20).to_be_bytes()]);
    assert!(matches!(ask(&[header]).step, Step::Close(Reason::OptionTooLong { .. })));
}

#[test]
fn bad_client_flags_close() {
    let outcome = handshake(&[memory("")], &[vec![0, 0, 0, 4]]);
    assert_eq!(outcome.step, Step::Close(Reason::ClientFlags(4)));
}

#[test]
fn bad_request_magic_closes() {
    assert!(Request::parse(&[0; 28]).is_err());
}

#[test]
fn abort_is_acknowledged_and_closes_even_with_data() {
    for data in [b"".as_slice(), b"x"] {
        let outcome = ask(&[option(2, data), go()]);
        assert_eq!(outcome.kinds(), [(2, 1)]);
        assert_eq!(outcome.step, Step::Close(Reason::Aborted));
    }
}

/// A request (command, offset, length, flags) and the error with structured replies, the context chosen, and
/// the one without both.
macro_rules! requests {
    ($($name:ident: $asked:expr => $structured:expr, $simple:expr,)*) => {
        $(#[test]
        fn $name() {
            let number = |session| {
                judge(session, &memory(""), $asked).map_or_else(ErrorNumber::number, |_| 0)
            };
            assert_eq!((number(full_session()), number(simple_session())), ($structured, $simple));
        })*
    };
}

const MIB_64: u32 = 64 << 20;

requests! {
    read_of_8: (0, 0, 8, 0) => 0, 0,
    read_of_nothing: (0, 0, 0, 0) => 22, 22,
    read_past_the_end: (0, GIB - 4, 8, 0) => 22, 22,
    read_of_4_gib_less_one: (0, 0, u32::MAX, 0) => 22, 22,
    read_past_all_numbers: (0, u64::MAX - 3, 8, 0) => 22, 22,
    read_of_64_mib: (0, 0, MIB_64, 0) => 0, 0,
    read_of_64_mib_and_1: (0, 0, MIB_64 + 1, 0) => 12, 12,
    read_with_df: (0, 0, 8, 4) => 0, 22,
    read_with_fua: (0, 0, 8, 1) => 0, 0,
    read_with_no_hole: (0, 0, 8, 2) => 22, 22,
    read_with_an_unknown_flag: (0, 0, 8, 0x8000) => 22, 22,
    write_past_the_end: (1, GIB - 4, 8, 0) => 28, 28,
    write_of_nothing: (1, 0, 0, 0) => 28, 28,
    write_of_64_mib: (1, 0, MIB_64, 0) => 0, 0,
    write_of_64_mib_and_1: (1, 0, MIB_64 + 1, 0) => 12, 12,
    write_with_an_unknown_flag: (1, 0, 8, 0x8000) => 22, 22,
    write_past_the_end_with_an_unknown_flag: (1, GIB, 8, 0x8000) => 28, 28,
    write_of_nothing_with_an_unknown_flag: (1, 0, 0, 0x8000) => 28, 28,
    zeroes_past_the_end_with_an_unknown_flag: (6, GIB, 8, 0x8000) => 28, 28,
    read_of_64_mib_and_1_with_an_unknown_flag: (0, 0, MIB_64 + 1, 0x8000) => 22, 22,
    disconnect: (2, 0, 0, 0) => 0, 0,
    disconnect_with_offset_length_and_flags: (2, 1, 1, 0x8000) => 0, 0,
    flush: (3, 0, 0, 0) => 0, 0,
    flush_with_fua: (3, 0, 0, 1) => 0, 0,
    flush_with_a_length: (3, 0, 1, 0) => 22, 22,
    flush_with_an_offset: (3, 1, 0, 0) => 22, 22,
    trim: (4, 0, 512, 0) => 0, 0,
    trim_of_nothing: (4, 0, 0, 0) => 22, 22,
    trim_past_the_end: (4, GIB, 1, 0) => 22, 22,
    cache: (5, 0, 512, 0) => 0, 0,
    cache_of_nothing: (5, 0, 0, 0) => 22, 22,
    cache_of_all: (5, 0, 1 << 30, 0) => 0, 0,
    zeroes_with_fua_and_no_hole: (6, 0, 512, 3) => 0, 0,
    zeroes_if_fast: (6, 0, 512, 16) => 0, 0,
    zeroes_of_nothing: (6, 0, 0, 0) => 28, 28,
    zeroes_past_the_end: (6, GIB, 1, 0) => 28, 28,
    status: (7, 0, 4096, 0) => 0, 22,
    status_of_one_extent: (7, 0, 4096, 8) => 0, 22,
    status_of_nothing: (7, 0, 0, 0) => 22, 22,
    status_past_the_end: (7, GIB, 1, 0) => 22, 22,
    unknown_command: (42, 0, 8, 0) => 22, 22,
    resize_is_unknown: (8, 0, 8, 0) => 22, 22,
}

#[test]
fn status_without_a_context_is_invalid_though_replies_are_structured() {
    let session = nbd::Session { allocation_context: None, ..full_session() };
    assert_eq!(judge(session, &memory(""), (7, 0, 4096, 0)), Err(ErrorNumber::Invalid));
}

#[test]
fn read_of_64_mib_is_one_chunk() {
    let mut output = Vec::new();
    full_session().read_header(&mut output, 7, 0, MIB_64);
    let chunk = b"\x66\x8e\x33\xef\0\x01\0\x01\0\0\0\0\0\0\0\x07\x04\0\0\x08\0\0\0\0\0\0\0\0";
    assert_eq!(output, chunk);
}

#[test]
fn refused_write_has_a_payload_to_drop_and_the_connection_lives() {
    let refused = request(1, 0, MIB_64 + 1, 0);
    assert_eq!(refused.payload_bytes(), MIB_64 + 1);
    assert!(!full_session().must_close(&refused, &memory("")));
}
