//! Requests of the transmission, rule by rule, in the numbers of `proto.md`.

use crate::support::*;
use nbd::ErrorNumber::{Invalid, NoMemory, NoSpace, NotPermitted};
use nbd::{BadMagic, Checked, Export, Request, transmission_flag};

const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const CACHE: u16 = 5;
const WRITE_ZEROES: u16 = 6;
const BLOCK_STATUS: u16 = 7;

#[test]
fn request_has_28_bytes_in_this_order() {
    let bytes = *b"\x25\x60\x95\x13\0\x01\0\x06\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\x01\0\0\0\0\x80\0\0\0";
    let parsed = Request::parse(&bytes).expect("the magic number");
    let expected = Request {
        flags: 1,
        command: 6,
        cookie: 0x0102_0304_0506_0708,
        offset: 1 << 32,
        length: 1 << 31,
    };
    assert_eq!(parsed, expected);
    let mut written = Vec::new();
    parsed.write(&mut written);
    assert_eq!(written, bytes);
}

#[test]
fn wrong_request_magic_is_an_error() {
    let mut bytes = request_bytes(READ, 0, 1, 0);
    bytes[3] = 0x14;
    assert_eq!(Request::parse(&bytes), Err(BadMagic { found: 0x2560_9514 }));
}

#[test]
fn every_command_is_known_by_its_number() {
    let (session, export) = (full_session(), memory(""));
    let (offset, length, force_unit_access) = (512, 1024, false);
    let expected = [
        Checked::Read { offset, length, dont_fragment: false },
        Checked::Write { offset, length, force_unit_access },
        Checked::Disconnect,
        Checked::Flush,
        Checked::Trim { offset, length, force_unit_access },
        Checked::Cache { offset, length },
        Checked::WriteZeroes {
            offset,
            length,
            force_unit_access,
            no_hole: false,
            only_if_fast: false,
        },
        Checked::BlockStatus { offset, length, only_one: false, context: 1 },
    ];
    for (command, expected) in (0..).zip(expected) {
        let range = if command == FLUSH { (0, 0) } else { (offset, length) };
        assert_eq!(judge(session, &export, (command, range.0, range.1, 0)), Ok(expected));
    }
}

#[test]
fn fua_is_accepted_on_every_command_once_advertised() {
    let without = Export { flags: memory("").flags & !transmission_flag::FUA, ..memory("") };
    for command in 0..8 {
        let length = if command == FLUSH { 0 } else { 8 };
        let asked = (command, 0, length, 1);
        let accepted = judge(full_session(), &memory(""), asked).expect("accepted");
        if let Checked::Write { force_unit_access, .. }
        | Checked::Trim { force_unit_access, .. }
        | Checked::WriteZeroes { force_unit_access, .. } = accepted
        {
            assert!(force_unit_access);
        }
        // There is no reply to a disconnect.
        let refused = judge(full_session(), &without, asked);
        assert_eq!(refused.err(), (command != 2).then_some(Invalid), "{command}");
    }
}

#[test]
fn each_flag_belongs_to_its_command() {
    for command in [READ, WRITE, FLUSH, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS] {
        let length = if command == FLUSH { 0 } else { 8 };
        for flag in (1..16).map(|bit| 1_u16 << bit) {
            let own = match command {
                READ => flag == 4,
                WRITE_ZEROES => flag == 2 || flag == 16,
                BLOCK_STATUS => flag == 8,
                _ => false,
            };
            let judged = judge(full_session(), &memory(""), (command, 0, length, flag));
            assert_eq!(judged.err(), (!own).then_some(Invalid), "{command} {flag:#x}");
        }
    }
}

#[test]
fn flags_arrive_as_what_they_mean() {
    let judge = |asked| judge(full_session(), &memory(""), asked).expect("accepted");
    assert!(matches!(judge((READ, 0, 8, 4)), Checked::Read { dont_fragment: true, .. }));
    let zeroes = Checked::WriteZeroes {
        offset: 0,
        length: 8,
        force_unit_access: true,
        no_hole: true,
        only_if_fast: false,
    };
    assert_eq!(judge((WRITE_ZEROES, 0, 8, 3)), zeroes);
    let fast = judge((WRITE_ZEROES, 0, 8, 16));
    assert!(matches!(fast, Checked::WriteZeroes { only_if_fast: true, no_hole: false, .. }));
    assert!(matches!(judge((BLOCK_STATUS, 0, 8, 8)), Checked::BlockStatus { only_one: true, .. }));
}

#[test]
fn fast_zero_that_is_not_advertised_is_invalid() {
    let export = Export { flags: memory("").flags & !transmission_flag::FAST_ZERO, ..memory("") };
    assert_eq!(judge(full_session(), &export, (WRITE_ZEROES, 0, 8, 16)), Err(Invalid));
}

#[test]
fn commands_that_are_not_advertised_are_invalid() {
    let export = Export { flags: 0, ..memory("") };
    for command in [FLUSH, TRIM, CACHE, WRITE_ZEROES] {
        let length = if command == FLUSH { 0 } else { 8 };
        assert_eq!(judge(full_session(), &export, (command, 0, length, 0)), Err(Invalid));
    }
    for command in [READ, WRITE, BLOCK_STATUS] {
        assert!(judge(full_session(), &export, (command, 0, 8, 0)).is_ok());
    }
}

#[test]
fn read_only_refuses_what_writes_whatever_its_range_and_flags() {
    for command in [WRITE, TRIM, WRITE_ZEROES] {
        for (offset, length, flags) in [(0, 8, 0), (0, 0, 0), (GIB, 8, 0), (0, 8, 0x8000)] {
            let judged = judge(full_session(), &read_only(), (command, offset, length, flags));
            assert_eq!(judged, Err(NotPermitted));
        }
    }
    for command in [READ, FLUSH, CACHE, BLOCK_STATUS] {
        let length = if command == FLUSH { 0 } else { 8 };
        assert!(judge(full_session(), &read_only(), (command, 0, length, 0)).is_ok());
    }
}

#[test]
fn range_may_touch_the_end_and_not_pass_it() {
    for command in [READ, WRITE, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS] {
        let judge =
            |offset, length| judge(full_session(), &memory(""), (command, offset, length, 0));
        let error = if matches!(command, WRITE | WRITE_ZEROES) { NoSpace } else { Invalid };
        assert!(judge(GIB - 8, 8).is_ok());
        for (offset, length) in [(GIB - 8, 9), (GIB, 1), (u64::MAX - 4, 8), (u64::MAX, u32::MAX)] {
            assert_eq!(judge(offset, length), Err(error), "{command} {offset} {length}");
        }
    }
}

#[test]
fn unaligned_requests_are_invalid_where_the_minimum_is_larger() {
    let export = Export { minimum_block_bytes: 512, ..memory("") };
    for command in [READ, WRITE, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS] {
        let judge = |offset, length| judge(full_session(), &export, (command, offset, length, 0));
        assert!(judge(512, 1024).is_ok());
        assert_eq!(judge(1, 512), Err(Invalid));
        assert_eq!(judge(512, 513), Err(Invalid));
    }
}

#[test]
fn only_payloads_are_bounded() {
    let export = Export { size_bytes: 1 << 40, ..memory("") };
    let judge = |command, length| judge(full_session(), &export, (command, 0, length, 0));
    for command in [READ, WRITE] {
        assert!(judge(command, 64 << 20).is_ok());
        assert_eq!(judge(command, (64 << 20) + 1), Err(NoMemory));
    }
    for command in [TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS] {
        assert!(judge(command, u32::MAX).is_ok());
    }
}

#[test]
fn read_that_no_chunk_can_hold_is_refused() {
    let export = Export { size_bytes: 1 << 40, maximum_payload_bytes: u32::MAX, ..memory("") };
    assert!(judge(full_session(), &export, (READ, 0, u32::MAX - 8, 0)).is_ok());
    assert_eq!(judge(full_session(), &export, (READ, 0, u32::MAX - 7, 0)), Err(NoMemory));
}

#[test]
fn only_a_write_has_a_payload_even_if_it_is_refused() {
    for command in 0..20 {
        let expected = if command == WRITE { 4096 } else { 0 };
        assert_eq!(request(command, 1 << 60, 4096, 0xffff).payload_bytes(), expected);
    }
}

#[test]
fn payload_up_to_128_mib_is_dropped_and_a_longer_one_closes() {
    let closes =
        |export: &Export, length| full_session().must_close(&request(WRITE, 0, length, 0), export);
    assert!(!closes(&memory(""), 128 << 20));
    assert!(closes(&memory(""), (128 << 20) + 1));
    let large = Export { maximum_payload_bytes: 1 << 30, ..memory("") };
    assert!(!closes(&large, 1 << 30));
    assert!(closes(&large, (1 << 30) + 1));
    assert!(!full_session().must_close(&request(TRIM, 0, u32::MAX, 0), &memory("")));
}

#[test]
fn every_refusal_has_a_reason_and_a_suggestion() {
    let refused =
        [(42, 0, 8, 0), (READ, 0, 0, 0), (READ, GIB, 8, 0), (WRITE, 0, 8, 8), (FLUSH, 1, 0, 0)];
    for (command, offset, length, flags) in refused {
        let asked = request(command, offset, length, flags);
        let refusal = full_session().check_with_reason(&asked, &memory("")).expect_err("refused");
        assert!(refusal.reason.contains(": "), "{}", refusal.reason);
        assert_eq!(full_session().check(&asked, &memory("")), Err(refusal.error));
    }
}
