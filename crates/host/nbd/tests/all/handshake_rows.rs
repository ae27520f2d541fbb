//! The handshake, rule by rule, in the numbers of `proto.md`.

use crate::support::*;
use nbd::{Export, Handshake, OPTION_BYTES_MAX, Reason, Session, Step};

#[test]
fn greeting_has_both_magic_numbers_and_both_flags() {
    assert_eq!(Handshake::greeting(), *b"NBDMAGICIHAVEOPT\0\x03");
}

#[test]
fn client_flags_0_to_3_are_taken_and_any_other_bit_closes() {
    for flags in 0..4_u32 {
        assert_eq!(handshake(&[memory("")], &[flags.to_be_bytes().into()]).step, Step::NeedMore);
    }
    for bit in 2..32 {
        let flags = 3 | 1_u32 << bit;
        let outcome = handshake(&[memory("")], &[flags.to_be_bytes().into(), go()]);
        assert_eq!(outcome.step, Step::Close(Reason::ClientFlags(flags)));
        assert!(outcome.output.is_empty());
    }
}

#[test]
fn without_fixed_newstyle_only_export_name_is_allowed() {
    let none = vec![0, 0, 0, 0];
    let outcome = handshake(&[memory("")], &[none.clone(), option(3, b"")]);
    assert_eq!(outcome.kinds(), [(3, INVALID)]);
    assert_eq!(handshake(&[memory("")], &[none, option(1, b"")]).session(), simple_session());
}

#[test]
fn wrong_option_magic_closes() {
    let outcome = ask(&[b"IHAVEOPS\0\0\0\x07".to_vec()]);
    assert!(matches!(outcome.step, Step::Close(Reason::OptionMagic(_))));
}

#[test]
fn reply_names_the_option_and_its_length() {
    let outcome = ask(&[option(8, b"")]);
    let ack = b"\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x08\0\0\0\x01\0\0\0\0";
    assert_eq!(outcome.output, ack);
}

#[test]
fn export_name_has_size_flags_and_124_zeros() {
    let outcome = handshake(&[memory("")], &[vec![0, 0, 0, 1], option(1, b"")]);
    let expected = join(&[&GIB.to_be_bytes(), &[0x0d, 0x6d], &[0; 124]]);
    assert_eq!((outcome.step, outcome.output), (Step::Begin(simple_session()), expected));
}

#[test]
fn export_name_with_no_zeroes_has_10_bytes() {
    let outcome = ask(&[option(1, b"")]);
    assert_eq!(outcome.output, join(&[&GIB.to_be_bytes(), &[0x0d, 0x6d]]));
}

#[test]
fn export_name_keeps_structured_replies_and_the_context() {
    let outcome = ask(&[structured(), meta(10, "", &["base:allocation"]), option(1, b"")]);
    assert_eq!(outcome.session(), full_session());
    assert_eq!(outcome.output[outcome.output.len() - 2..], [0x0d, 0xed], "DF is set");
}

#[test]
fn export_name_of_no_export_closes_without_a_byte() {
    for name in [b"other".to_vec(), vec![0xff], vec![b'a'; 4097]] {
        let outcome = ask(&[option(1, &name)]);
        assert_eq!(outcome.step, Step::Close(Reason::UnknownExport));
        assert!(outcome.output.is_empty());
    }
}

#[test]
fn list_has_names_with_lengths_and_descriptions() {
    let plain = Export { description: String::new(), ..memory("two") };
    let outcome = handshake(&[memory("one"), plain], &[flags(), option(3, b"")]);
    let replies = outcome.replies();
    assert_eq!(replies[0], (3, 2, b"\0\0\0\x03onebytes in memory".to_vec()));
    assert_eq!(replies[1], (3, 2, b"\0\0\0\x03two".to_vec()));
    assert_eq!(replies[2..], [(3, 1, Vec::new())]);
}

#[test]
fn go_tells_size_and_flags_without_zeros_after() {
    let outcome = handshake(&[memory("")], &[vec![0, 0, 0, 1], go()]);
    let export = join(&[&[0, 0], &GIB.to_be_bytes(), &[0x0d, 0x6d]]);
    assert_eq!(outcome.replies(), [(7, 3, export), (7, 1, Vec::new())]);
    assert_eq!(outcome.session(), simple_session());
}

#[test]
fn go_answers_each_info_once_and_ignores_unknown_ones() {
    let outcome = ask(&[describe(7, "", &[3, 9, 1, 3, 2, 0])]);
    let infos: Vec<_> = outcome.replies().into_iter().map(|(_, _, data)| data).collect();
    let sizes = b"\0\x03\0\0\0\x01\0\0\x10\0\x04\0\0\0".to_vec();
    let description = b"\0\x02bytes in memory".to_vec();
    assert_eq!(infos[1..], [b"\0\x01".to_vec(), description, sizes, Vec::new()]);
}

#[test]
fn info_is_go_without_a_beginning() {
    let outcome = ask(&[describe(6, "", &[3])]);
    assert_eq!(outcome.step, Step::NeedMore);
    assert_eq!(outcome.kinds(), [(6, 3), (6, 3), (6, 1)]);
}

#[test]
fn empty_name_is_the_first_export_and_its_info_has_the_real_name() {
    let outcome = handshake(&[memory("a"), memory("b")], &[flags(), describe(7, "", &[1])]);
    assert_eq!(outcome.replies()[1].2, b"\0\x01a");
    assert_eq!(outcome.session().export, 0);
    let named = handshake(&[memory("a"), memory("b")], &[flags(), describe(7, "b", &[])]);
    assert_eq!(named.session().export, 1);
    let default = handshake(&[memory("a"), memory("")], &[flags(), go()]);
    assert_eq!(default.session().export, 1, "an export without a name is the default one");
}

#[test]
fn unknown_export_is_unknown_and_the_handshake_goes_on() {
    let outcome = ask(&[
        describe(7, "no", &[]),
        describe(6, "no", &[]),
        meta(9, "no", &[]),
        structured(),
        meta(10, "no", &[]),
        go(),
    ]);
    let kinds = outcome.kinds();
    assert_eq!(kinds[..3], [(7, UNKNOWN), (6, UNKNOWN), (9, UNKNOWN)]);
    assert_eq!(kinds[3..], [(8, 1), (10, UNKNOWN), (7, 3), (7, 1)]);
}

#[test]
fn malformed_info_and_meta_data_are_invalid() {
    let malformed: &[(u32, &[u8])] = &[
        (6, b""),
        (6, b"\0\0\0\0\0"),
        (7, b"\0\0\0\0\0\x01"),
        (7, b"\0\0\0\0\0\0x"),
        (7, b"\0\0\0\x01\0\0\0"),
        (9, b"\0"),
        (9, b"\0\0\0\0\0\0\0\0x"),
        (10, b"\0\0\0\0"),
        (10, b"\0\0\0\0\0\0\0\x01\0\0\0\x05ab"),
        (10, b"\0\0\0\0\xff\xff\xff\xff"),
    ];
    for (number, data) in malformed {
        let outcome = ask(&[structured(), option(*number, data)]);
        assert_eq!(outcome.kinds()[1..], [(*number, INVALID)], "{number} {data:?}");
    }
}

#[test]
fn strings_have_at_most_4096_bytes_and_no_zero_byte() {
    let long = "a".repeat(4096);
    let too_long = "a".repeat(4097);
    let kind = |part: Vec<u8>| ask(&[structured(), part]).kinds()[1].1;
    assert_eq!(kind(describe(6, &long, &[])), UNKNOWN);
    assert_eq!(kind(describe(6, &too_long, &[])), INVALID);
    assert_eq!(kind(describe(6, "a\0b", &[])), INVALID);
    assert_eq!(kind(meta(10, "", &[&long])), 1);
    assert_eq!(kind(meta(10, "", &[&too_long])), INVALID);
}

#[test]
fn set_meta_before_structured_reply_is_invalid() {
    let set = meta(10, "", &["base:allocation"]);
    let outcome = ask(&[set, structured(), go()]);
    assert_eq!(outcome.kinds()[0], (10, INVALID));
    assert_eq!(outcome.session().allocation_context, None);
}

#[test]
fn set_meta_answers_the_context_once_with_its_number() {
    let outcome = ask(&[structured(), meta(10, "", &["base:allocation", "base:allocation"])]);
    let context = (10, 4, b"\0\0\0\x01base:allocation".to_vec());
    assert_eq!(outcome.replies()[1..], [context, (10, 1, Vec::new())]);
}

#[test]
fn set_meta_replaces_even_if_it_fails() {
    let set = || meta(10, "", &["base:allocation"]);
    let chosen =
        |second: Vec<u8>| ask(&[structured(), set(), second, go()]).session().allocation_context;
    assert_eq!(chosen(set()), Some(1));
    assert_eq!(chosen(meta(9, "", &[])), Some(1), "a list changes nothing");
    assert_eq!(chosen(meta(10, "", &[])), None);
    assert_eq!(chosen(meta(10, "no", &["base:allocation"])), None);
    assert_eq!(chosen(option(10, b"x")), None);
}

#[test]
fn set_meta_counts_only_for_the_same_name() {
    let exports = [memory("a"), memory("b")];
    let chosen = |set: &str, begun: &str| {
        let set = meta(10, set, &["base:allocation"]);
        let parts = [flags(), structured(), set, describe(7, begun, &[])];
        handshake(&exports, &parts).session().allocation_context
    };
    assert_eq!(chosen("b", "b"), Some(1));
    assert_eq!(chosen("a", "b"), None);
    assert_eq!(chosen("", "a"), None, "the empty name is another name");
}

#[test]
fn base_wildcard_selects_nothing_in_set_and_all_in_list() {
    let outcome = ask(&[structured(), meta(10, "", &["base:"]), meta(9, "", &["base:"]), go()]);
    assert_eq!(outcome.kinds()[1..4], [(10, 1), (9, 4), (9, 1)]);
    assert_eq!(outcome.replies()[2].2, b"\0\0\0\0base:allocation", "the number is reserved");
    assert_eq!(outcome.session().allocation_context, None);
}

#[test]
fn list_meta_without_queries_lists_all_and_other_namespaces_are_ignored() {
    let kinds = |queries: &[&str]| ask(&[structured(), meta(9, "", queries)]).kinds()[1..].to_vec();
    assert_eq!(kinds(&[]), [(9, 4), (9, 1)]);
    assert_eq!(kinds(&["base:allocation"]), [(9, 4), (9, 1)]);
    assert_eq!(kinds(&["qemu:", "x-y:z", "base:other", "no colon", ""]), [(9, 1)]);
    let set = ask(&[structured(), meta(10, "", &["qemu:dirty-bitmap:b", "base:allocation"])]);
    assert_eq!(set.kinds()[1..], [(10, 4), (10, 1)]);
}

#[test]
fn refused_starttls_keeps_what_was_negotiated() {
    let outcome = ask(&[structured(), meta(10, "", &["base:allocation"]), option(5, b""), go()]);
    assert_eq!(outcome.kinds()[3], (5, POLICY));
    assert_eq!(outcome.session(), full_session());
}

#[test]
fn df_is_clear_until_structured_replies_are_negotiated() {
    let outcome = ask(&[describe(6, "", &[]), structured(), describe(6, "", &[])]);
    let replies = outcome.replies();
    assert_eq!(replies[0].2[10..], [0x0d, 0x6d]);
    assert_eq!(replies[3].2[10..], [0x0d, 0xed]);
    let export = memory("");
    assert_eq!(
        Session { structured: true, ..simple_session() }.transmission_flags(&export),
        0x0ded
    );
    assert_eq!(Export { flags: 0xffff, ..memory("") }.transmission_flags(false), 0x0d7f);
    assert_eq!(Export { flags: 0, ..export }.transmission_flags(false), 1, "always set");
}

#[test]
fn requests_behind_go_stay_in_the_input() {
    let outcome = ask(&[go(), request_bytes(0, 0, 512, 0).to_vec()]);
    assert_eq!(outcome.rest, request_bytes(0, 0, 512, 0));
}

#[test]
fn option_of_64_kib_is_taken_and_one_byte_more_closes_at_its_header() {
    let data = vec![0; OPTION_BYTES_MAX as usize];
    assert_eq!(ask(&[option(99, &data)]).kinds(), [(99, UNSUPPORTED)]);
    let header = join(&[OPTION_MAGIC, &99_u32.to_be_bytes(), &65_537_u32.to_be_bytes()]);
    let closed = Step::Close(Reason::OptionTooLong { option: 99, length: 65_537 });
    assert_eq!(ask(&[header]).step, closed);
}

#[test]
fn endless_options_close_and_so_does_a_call_after_the_end() {
    let mut handshake = Handshake::new([memory("")].as_slice());
    let (mut input, mut output) = (flags(), Vec::new());
    let mut options = 0;
    let step = loop {
        input.extend(option(3, b""));
        options += 1;
        match handshake.feed(&mut input, &mut output) {
            Step::NeedMore => assert!(options < 20_000, "it ends"),
            end => break end,
        }
    };
    assert_eq!(step, Step::Close(Reason::TooManyOptions));
    assert!(output.len() < 300 << 10, "{}", output.len());
    assert_eq!(handshake.feed(&mut input, &mut output), Step::Close(Reason::Over));
}
