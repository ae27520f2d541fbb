//! What known clients send first, as recorded with Debian 12's versions, and that it leads where they want.

use crate::support::*;
use nbd::{Checked, Session, Step};

const ALLOCATION: &[&str] = &["base:allocation"];

#[test]
fn nbdinfo() {
    let parts = [structured(), describe(6, "", &[3, 1, 2]), meta(9, "", &[]), go()];
    let outcome = ask(&parts);
    let kinds = [(8, 1), (6, 3), (6, 3), (6, 3), (6, 3), (6, 1), (9, 4), (9, 1), (7, 3), (7, 1)];
    assert_eq!(outcome.kinds(), kinds);
    assert_eq!(outcome.session(), Session { allocation_context: None, ..full_session() });
    let read = judge(outcome.session(), &memory(""), (0, 0, 8192, 0));
    assert_eq!(read, Ok(Checked::Read { offset: 0, length: 8192, dont_fragment: false }));
}

#[test]
fn nbdinfo_map_nbdcopy_and_qemu() {
    let outcome = ask(&[structured(), meta(10, "", ALLOCATION), describe(7, "", &[3])]);
    assert_eq!(outcome.session(), full_session());
    let map = judge(outcome.session(), &memory(""), (7, 0, 1 << 30, 0));
    let all = Checked::BlockStatus { offset: 0, length: 1 << 30, only_one: false, context: 1 };
    assert_eq!(map, Ok(all));
    for asked in [(1, 0, 512, 1), (6, 0, 128 << 20, 3), (3, 0, 0, 0), (2, 0, 0, 0)] {
        assert!(judge(outcome.session(), &memory(""), asked).is_ok(), "{asked:?}");
    }
}

#[test]
fn lists_of_qemu_nbd_nbdinfo_and_nbd_client() {
    let exports = [memory("a"), memory("b")];
    let parts = [
        flags(),
        structured(),
        option(3, b""),
        describe(6, "a", &[3, 1, 2]),
        meta(9, "a", &[]),
        meta(9, "a", &["qemu:"]),
        option(2, b""),
    ];
    let outcome = handshake(&exports, &parts);
    let kinds = outcome.kinds();
    assert_eq!(kinds[..4], [(8, 1), (3, 2), (3, 2), (3, 1)]);
    assert_eq!(kinds[9..], [(9, 4), (9, 1), (9, 1), (2, 1)]);
    assert!(matches!(outcome.step, Step::Close(_)));
}

#[test]
fn linux_has_simple_replies() {
    let outcome = ask(&[describe(7, "", &[3])]);
    assert_eq!(outcome.session(), simple_session());
}
