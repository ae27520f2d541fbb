//! The judge itself: what a guarantee does not allow is reported, by path and in words, and what it
//! allows is accepted. A judge that accepts everything, or nothing, fails here.

use crate::support::trees::{
    At, change_content, directory, edit, file, guarantee, guarantees, remove, standard, symlink,
    told,
};
use crash::{
    ERASED_CHUNK, Guarantee, History, Judgement, LOST_GROWTH, Mismatch, Order, Tree, Window, judge,
};
use nand::Torn;

const ALL_TORN: [Torn; 3] = [Torn::Nothing, Torn::Prefix, Torn::DataOnly];

/// Operation at which all histories of these tests are cut: after all that they did.
const CUT_AT: u64 = 1000;

fn judged(history: &History, torn: Torn, found: &Tree) -> Result<Judgement, Mismatch> {
    judge(history, &history.window(CUT_AT), torn, found)
}

/// A damage to the tree of [`standard`], all of which was safe, and the report that it asks for.
struct Damage {
    name: &'static str,
    apply: fn(&mut Tree),
    path: &'static str,
    expected: &'static str,
    /// Any of these stands in what was found.
    found: &'static [&'static str],
}

const F: &str = "f 0644 0:0 links 1, 10000 bytes";
const G: &str = "f 0600 7:8 links 1, 5000 bytes user.k=7631";

/// What became of bytes is described by their place, or, of blocks, by words.
const DAMAGES: &[Damage] = &[
    Damage {
        name: "a lost file",
        apply: |tree| remove(tree, "d/f"),
        path: "d/f",
        expected: F,
        found: &["nothing"],
    },
    Damage {
        name: "a lost directory, with what is in it",
        apply: |tree| {
            remove(tree, "d/f");
            remove(tree, "d");
        },
        path: "d",
        expected: "d 0755 0:0",
        found: &["nothing"],
    },
    Damage {
        name: "an empty tree",
        apply: |tree| tree.rows.retain(|path, _| path.is_empty()),
        path: "d",
        expected: "d 0755 0:0",
        found: &["nothing"],
    },
    Damage {
        name: "one of two names is lost",
        apply: |tree| remove(tree, "second"),
        path: "second",
        expected: "f 0640 0:0 links 2, 300 bytes",
        found: &["nothing"],
    },
    Damage {
        name: "one wrong byte",
        apply: |tree| edit(tree, "g", |row| change_content(row, |bytes| bytes[4998] ^= 1)),
        path: "g",
        expected: G,
        found: &[": 1 bytes are others, the first is byte 4998", ", with other bytes"],
    },
    Damage {
        name: "bytes of another file",
        apply: |tree| edit(tree, "d/f", |row| change_content(row, |bytes| bytes.fill(0xff))),
        path: "d/f",
        expected: F,
        found: &[": 10000 bytes are others, the first is byte 0", ", with other bytes"],
    },
    Damage {
        name: "a block of zeros",
        apply: |tree| {
            edit(tree, "d/f", |row| change_content(row, |bytes| bytes[4096..8192].fill(0)));
        },
        path: "d/f",
        expected: F,
        found: &[": 4096 bytes are others, the first is byte 4096", ", with other bytes"],
    },
    Damage {
        name: "a shorter file",
        apply: |tree| edit(tree, "d/f", |row| change_content(row, |bytes| bytes.truncate(9999))),
        path: "d/f",
        expected: F,
        found: &["links 1, 9999 bytes"],
    },
    Damage {
        name: "an empty file",
        apply: |tree| edit(tree, "d/f", |row| change_content(row, Vec::clear)),
        path: "d/f",
        expected: F,
        found: &["links 1, 0 bytes"],
    },
    Damage {
        name: "a longer file",
        apply: |tree| edit(tree, "d/f", |row| change_content(row, |bytes| bytes.push(0))),
        path: "d/f",
        expected: F,
        found: &["links 1, 10001 bytes"],
    },
    Damage {
        name: "a file instead of a directory",
        apply: |tree| {
            remove(tree, "d/f");
            tree.rows.insert(b"d".to_vec(), file(2, 0o755, b""));
        },
        path: "d",
        expected: "d 0755 0:0",
        found: &["f 0755 0:0 links 1, 0 bytes"],
    },
    Damage {
        name: "a wrong mode",
        apply: |tree| edit(tree, "g", |row| row.facts.permissions = 0o644),
        path: "g",
        expected: G,
        found: &["f 0644 7:8 links 1, 5000 bytes user.k=7631"],
    },
    Damage {
        name: "a wrong mode of a directory",
        apply: |tree| edit(tree, "d", |row| row.facts.permissions = 0o700),
        path: "d",
        expected: "d 0755 0:0",
        found: &["d 0700 0:0"],
    },
    Damage {
        name: "a wrong owner",
        apply: |tree| edit(tree, "g", |row| row.facts.owner.0 = 0),
        path: "g",
        expected: G,
        found: &["f 0600 0:8 links 1, 5000 bytes user.k=7631"],
    },
    Damage {
        name: "a wrong group",
        apply: |tree| edit(tree, "g", |row| row.facts.owner.1 = 0),
        path: "g",
        expected: G,
        found: &["f 0600 7:0 links 1, 5000 bytes user.k=7631"],
    },
    Damage {
        name: "a link too many",
        apply: |tree| edit(tree, "g", |row| row.facts.links = 2),
        path: "g",
        expected: G,
        found: &["f 0600 7:8 links 2, 5000 bytes"],
    },
    Damage {
        name: "a lost extended attribute",
        apply: |tree| edit(tree, "g", |row| row.facts.extended.clear()),
        path: "g",
        expected: G,
        found: &["f 0600 7:8 links 1, 5000 bytes"],
    },
    Damage {
        name: "a wrong value of an extended attribute",
        apply: |tree| {
            edit(tree, "g", |row| {
                row.facts.extended.insert(b"user.k".to_vec(), b"v2".to_vec());
            });
        },
        path: "g",
        expected: G,
        found: &["user.k=7632"],
    },
    Damage {
        name: "an extended attribute that nobody set",
        apply: |tree| {
            edit(tree, "g", |row| {
                row.facts.extended.insert(b"user.x".to_vec(), b"v1".to_vec());
            });
        },
        path: "g",
        expected: G,
        found: &["user.k=7631 user.x=7631"],
    },
    Damage {
        name: "a wrong target",
        apply: |tree| edit(tree, "l", |row| row.facts.target = b"elsewhere".to_vec()),
        path: "l",
        expected: "l 0777 0:0 links 1 to d/f",
        found: &["to elsewhere"],
    },
    Damage {
        name: "a wrong device number",
        apply: |tree| edit(tree, "n", |row| row.facts.device = (4, 64)),
        path: "n",
        expected: "c 0660 0:0 links 1, 5:1",
        found: &["4:64"],
    },
    Damage {
        name: "a file in another directory",
        apply: |tree| {
            let row = tree.rows.remove(b"d/f".as_slice()).expect("there");
            tree.rows.insert(b"f".to_vec(), row);
        },
        path: "d/f",
        expected: F,
        found: &["nothing"],
    },
    Damage {
        name: "two files that changed their names",
        apply: |tree| {
            let (f, g) = (tree.rows[b"d/f".as_slice()].clone(), tree.rows[b"g".as_slice()].clone());
            tree.rows.insert(b"d/f".to_vec(), g);
            tree.rows.insert(b"g".to_vec(), f);
        },
        path: "d/f",
        expected: F,
        found: &["f 0600 7:8 links 1, 5000 bytes user.k=7631"],
    },
];

#[test]
fn damage_to_what_was_safe_is_reported_as_lost() {
    for guarantee in guarantees() {
        let history = History::new(guarantee, standard());
        for Damage { name, apply, path, expected, found } in DAMAGES {
            let mut tree = standard();
            apply(&mut tree);
            for torn in ALL_TORN {
                let at = format!("{} {torn:?}, {name}", guarantee.kind);
                let mismatch = judged(&history, torn, &tree).expect_err(&at);
                assert!(mismatch.was_safe, "{at}: {}", told(&mismatch));
                assert_eq!(mismatch.path, path.as_bytes(), "{at}: {}", told(&mismatch));
                assert_eq!(mismatch.expected, *expected, "{at}: {}", told(&mismatch));
                let says = |words: &&str| mismatch.found.contains(*words);
                assert!(found.iter().any(says), "{at}: {}", told(&mismatch));
                assert_ne!(mismatch.found, mismatch.expected, "{at}");
            }
        }
    }
}

#[test]
fn a_tree_as_it_was_is_accepted() {
    for guarantee in guarantees() {
        let history = History::new(guarantee, standard());
        for torn in ALL_TORN {
            assert_eq!(judged(&history, torn, &standard()), Ok(Judgement::State));
        }
    }
}

#[test]
fn a_name_that_leads_nowhere_is_reported() {
    let lost = |path: &str, was_safe| Mismatch {
        was_safe,
        path: path.as_bytes().to_vec(),
        expected: "no such name, or one that can be read".into(),
        found: "a name of nothing".into(),
    };
    for guarantee in guarantees() {
        let history = History::new(guarantee, standard());
        for torn in ALL_TORN {
            let mut tree = standard();
            remove(&mut tree, "g");
            tree.dangling.push(b"g".to_vec());
            assert_eq!(judged(&history, torn, &tree), Err(lost("g", true)));
            let mut tree = standard();
            tree.dangling.push(b"new".to_vec());
            assert_eq!(judged(&history, torn, &tree), Err(lost("new", false)));
        }
    }
}

/// JFFS2 after a torn page may have names whose inode cannot be read, but not of what was safe.
#[test]
fn a_name_that_cannot_be_read_is_reported_if_it_was_safe() {
    for guarantee in guarantees() {
        let history = History::new(guarantee, standard());
        for torn in ALL_TORN {
            let mut tree = standard();
            remove(&mut tree, "g");
            tree.unreadable.push(b"g".to_vec());
            let mismatch = judged(&history, torn, &tree).expect_err("it was safe");
            assert!(mismatch.was_safe && mismatch.path == b"g", "{}", told(&mismatch));
        }
    }
}

/// A history of steps after a first one, each synced or not.
fn history(kind: &str, steps: &[At]) -> History {
    let mut history = History::new(guarantee(kind), steps[0].tree.clone());
    for (number, step) in (1..).zip(&steps[1..]) {
        let now = 10 * number;
        step.tell(&mut history, now);
    }
    history
}

fn tree_with(path: &str, row: std::sync::Arc<crash::Row>) -> Tree {
    let mut tree = standard();
    tree.rows.insert(path.as_bytes().to_vec(), row);
    tree
}

#[test]
fn what_was_replaced_and_synced_may_not_come_back() {
    let old = tree_with("x", file(20, 0o644, &[b'a'; 9000]));
    let new = tree_with("x", file(20, 0o644, &[b'b'; 9000]));
    let shorter = tree_with("x", file(20, 0o644, &[b'a'; 100]));
    let mut renamed = standard();
    renamed.rows.insert(b"y".to_vec(), file(20, 0o644, &[b'a'; 9000]));
    // From one tree to the next, and the path that is named if the first comes back.
    let changes = [
        ("stale contents", &old, &new, "x", true),
        ("a file as long as it was before it was cut", &old, &shorter, "x", true),
        ("a lost rename", &old, &renamed, "y", true),
        ("a deleted file", &old, &standard(), "x", false),
        ("a new file that is lost", &standard(), &old, "x", true),
    ];
    for guarantee in guarantees() {
        for (name, before, after, path, was_safe) in &changes {
            let steps = [At::synced(before), At::synced(after)];
            let history = history(guarantee.kind, &steps);
            for torn in ALL_TORN {
                let at = format!("{} {torn:?}, {name}", guarantee.kind);
                assert_eq!(judged(&history, torn, after), Ok(Judgement::State), "{at}");
                let mismatch = judged(&history, torn, before).expect_err(&at);
                assert_eq!(mismatch.path, path.as_bytes(), "{at}: {}", told(&mismatch));
                assert_eq!(mismatch.was_safe, *was_safe, "{at}: {}", told(&mismatch));
                assert_ne!(mismatch.found, mismatch.expected, "{at}");
            }
        }
    }
}

/// Calls that were not synced: each state between is allowed, and what stands in none is reported.
#[test]
fn what_no_state_has_is_impossible() {
    let first = tree_with("x", file(20, 0o644, b""));
    let mut second = first.clone();
    second.rows.insert(b"y".to_vec(), file(21, 0o644, b""));
    let mut only_second = standard();
    only_second.rows.insert(b"y".to_vec(), file(21, 0o644, b""));
    let mut stranger = second.clone();
    stranger.rows.insert(b"z".to_vec(), file(22, 0o644, b""));
    for kind in ["jffs2", "ubifs"] {
        let steps = [At::synced(&standard()), At::unsynced(&first), At::unsynced(&second)];
        let history = history(kind, &steps);
        for torn in ALL_TORN {
            for tree in [&standard(), &first, &second] {
                assert_eq!(judged(&history, torn, tree), Ok(Judgement::State), "{kind} {torn:?}");
            }
            let at = format!("{kind} {torn:?}");
            let mismatch = judged(&history, torn, &stranger).expect_err(&at);
            assert!(!mismatch.was_safe, "{at}");
            assert_eq!(mismatch.path, b"z", "{at}: {}", told(&mismatch));
            assert_eq!(mismatch.expected, "nothing", "{at}");
            assert_eq!(mismatch.found, "f 0644 0:0 links 1, 0 bytes", "{at}");
            // A call that is left out, where another that came after it is there.
            let left_out = judged(&history, torn, &only_second);
            if (kind, torn == Torn::Nothing) == ("jffs2", false) {
                assert_eq!(left_out, Ok(Judgement::PartOfWrite), "each name by itself");
            } else {
                let mismatch = left_out.expect_err(&at);
                assert!(!mismatch.was_safe, "{at}");
                assert!([b"x", b"y"].contains(&&mismatch.path[..].try_into().expect("short")));
            }
        }
    }
}

/// YAFFS2: every call that returned is safe, without any sync.
#[test]
fn what_returned_is_safe_where_calls_are() {
    let new = tree_with("x", file(20, 0o644, b""));
    let history = history("yaffs2", &[At::synced(&standard()), At::unsynced(&new)]);
    let mismatch = judged(&history, Torn::Nothing, &standard()).expect_err("it returned");
    assert_eq!((mismatch.was_safe, &mismatch.path[..]), (true, b"x".as_slice()));
}

/// A write under way: old bytes, then new ones; which of them may be mixed depends on the guarantee.
#[test]
fn bytes_of_a_write_are_old_or_new() {
    let (a, b) = (vec![b'a'; 12_288], vec![b'b'; 12_288]);
    let tree = |bytes: &[u8]| tree_with("x", file(20, 0o644, bytes));
    let mixed = |chunks: [u8; 3]| tree(&chunks.map(|byte| [byte; 4096]).concat());
    let mut alien = mixed(*b"bba");
    edit(&mut alien, "x", |row| change_content(row, |bytes| bytes[9000] = b'c'));
    let longer = tree(&[b'a'; 12_289]);
    let shorter = tree(&[b'a'; 12_287]);
    let mut moded = mixed(*b"baa");
    edit(&mut moded, "x", |row| row.facts.permissions = 0o777);
    // One checkpoint is never half of another, and what FAT mixes is told as a hazard: `judge_on_block.rs`.
    let is_mixing = |guarantee: &&'static Guarantee| {
        !matches!(guarantee.order, Order::Checkpoints | Order::Sectors)
    };
    for guarantee in guarantees().filter(is_mixing) {
        let steps = [At::synced(&tree(&a)), At::written(&tree(&b), 20)];
        let history = history(guarantee.kind, &steps);
        for torn in ALL_TORN {
            let at = format!("{} {torn:?}", guarantee.kind);
            for whole in [&a, &b] {
                assert_eq!(judged(&history, torn, &tree(whole)), Ok(Judgement::State), "{at}");
            }
            for part in [*b"baa", *b"bba", *b"aab", *b"aba"] {
                let accepted = judged(&history, torn, &mixed(part));
                assert_eq!(accepted, Ok(Judgement::PartOfWrite), "{at} {part:?}");
            }
            for (name, wrong) in
                [("alien", &alien), ("longer", &longer), ("shorter", &shorter), ("moded", &moded)]
            {
                let mismatch = judged(&history, torn, wrong).expect_err(&format!("{at} {name}"));
                assert_eq!(mismatch.path, b"x", "{at} {name}: {}", told(&mismatch));
                assert!(!mismatch.was_safe, "{at} {name}: {}", told(&mismatch));
                assert_ne!(mismatch.found, mismatch.expected, "{at} {name}");
            }
            // Another file is none of the write's.
            let mut other = mixed(*b"baa");
            edit(&mut other, "g", |row| change_content(row, |bytes| bytes[0] ^= 1));
            let mismatch = judged(&history, torn, &other).expect_err(&at);
            assert_eq!(mismatch.path, b"g", "{at}: {}", told(&mismatch));
            assert!(mismatch.was_safe, "{at}: {}", told(&mismatch));
        }
    }
}

/// Erased chunks are known only of a file that is being made shorter, and only of an erase that left tags.
#[test]
fn erased_chunks_are_told_by_their_name_while_a_file_is_made_shorter() {
    let old = [b'a'; 6000];
    let tree = |bytes: &[u8]| tree_with("x", file(20, 0o644, bytes));
    let mut erased = old;
    erased[2048..4096].fill(0xff);
    for guarantee in guarantees().filter(|one| one.kind == "yaffs2" || one.kind == "ubifs") {
        let shorter = [At::synced(&tree(&old)), At::written(&tree(b""), 20)];
        let longer = [At::synced(&tree(&old)), At::written(&tree(&[b'a'; 9000]), 20)];
        for torn in ALL_TORN {
            let judged_of = |states: &[At], bytes: &[u8]| {
                judged(&history(guarantee.kind, states), torn, &tree(bytes))
            };
            let is_known = guarantee.kind == "yaffs2" && torn == Torn::DataOnly;
            let found = judged_of(&shorter, &erased);
            assert_eq!(found == Ok(Judgement::Hazard(&ERASED_CHUNK)), is_known, "{found:?}");
            judged_of(&longer, &erased).expect_err("nothing was erased");
            let mut other = erased;
            other[5000] = b'b';
            judged_of(&shorter, &other).expect_err("a byte that it never had");
        }
    }
}

/// Where each record stands by itself, a value that was replaced can be gone; one that was not touched cannot.
#[test]
fn an_attribute_that_was_replaced_may_be_gone_where_records_stand_alone() {
    let tree = |value: Option<&[u8]>| {
        let mut tree = tree_with("x", file(20, 0o644, b"x"));
        let value = value.map(<[u8]>::to_vec);
        edit(&mut tree, "x", |row| {
            row.facts.extended.extend(value.map(|value| (b"user.a".to_vec(), value)));
        });
        tree
    };
    let (old, new) = (tree(Some(&[1; 1500])), tree(Some(&[2; 300])));
    for guarantee in guarantees().filter(|one| ["jffs2", "ubifs", "yaffs2"].contains(&one.kind)) {
        for torn in ALL_TORN {
            let is_alone = guarantee.order(torn) == Order::EachByItself;
            let replaced = history(guarantee.kind, &[At::synced(&old), At::unsynced(&new)]);
            assert_eq!(
                judged(&replaced, torn, &tree(None)).is_ok(),
                is_alone,
                "{}",
                guarantee.kind
            );
            let untouched = history(guarantee.kind, &[At::synced(&old), At::unsynced(&old)]);
            let mismatch = judged(&untouched, torn, &tree(None)).expect_err("it was safe");
            assert!(
                mismatch
                    .expected
                    .contains("user.a=01010101010101010101010101010101... of 1500 bytes")
            );
        }
    }
}

/// Zeros at the end of a file that YAFFS2 kept in memory alone are a known hazard; lost bytes are not.
#[test]
fn lost_growth_is_told_by_its_name_and_only_for_zeros() {
    let mut grown = [b'a'; 3000].to_vec();
    grown.resize(5000, 0);
    let tree = |bytes: &[u8]| tree_with("x", file(20, 0o644, bytes));
    for guarantee in guarantees() {
        let history = history(guarantee.kind, &[At::synced(&tree(&grown))]);
        for torn in ALL_TORN {
            for bytes in [3000, 4000] {
                let judged = judged(&history, torn, &tree(&grown[..bytes]));
                if guarantee.kind == "yaffs2" {
                    assert_eq!(judged, Ok(Judgement::Hazard(&LOST_GROWTH)));
                } else {
                    assert!(judged.expect_err("nobody else forgets").was_safe);
                }
            }

            // A write behind the zeros does not hide them.
            let mut longer = grown.clone();
            longer.push(b'b');
            let states = [At::synced(&tree(&grown)), At::written(&tree(&longer), 20)];
            let judged_now =
                judged(&self::history(guarantee.kind, &states), torn, &tree(&grown[..3000]));
            let is_known = judged_now == Ok(Judgement::Hazard(&LOST_GROWTH));
            assert_eq!(is_known, guarantee.kind == "yaffs2", "{} {judged_now:?}", guarantee.kind);
            let mismatch = judged(&history, torn, &tree(&grown[..2999])).expect_err("a byte");
            assert_eq!((mismatch.was_safe, &mismatch.path[..]), (true, b"x".as_slice()));
            let both = {
                let mut both = tree(&grown[..4000]);
                remove(&mut both, "g");
                both
            };
            let mismatch = judged(&history, torn, &both).expect_err("a file is lost, too");
            assert!(mismatch.was_safe);
        }
    }
}

/// What only a cut of a recovery leaves is a violation behind the cut of a call.
#[test]
fn a_revived_target_is_allowed_behind_cuts_of_recoveries_alone() {
    let kind = "yaffs2";
    let hazards = guarantee(kind).hazards;
    let hazard = hazards.iter().find(|one| one.name == "revived-target").expect("in the table");
    // A rename of `g` over the file `d/f`: `d/f` is there with its old bytes, and `g` is not.
    let old = standard();
    let (mut revived, mut renamed) = (old.clone(), old.clone());
    remove(&mut revived, "g");
    let moved = renamed.rows.remove(b"g".as_slice()).expect("a file");
    renamed.rows.insert(b"d/f".to_vec(), moved);
    let mut history = history(kind, &[At::synced(&old)]);
    history.push_behind_recoveries(revived.clone(), hazard);
    history.push(CUT_AT - 1, renamed, None);
    let window = history.window(CUT_AT);
    let behind_recoveries = Window { is_recovery_cut: true, ..window.clone() };
    let judged = |window: &Window, found| judge(&history, window, Torn::Nothing, found);
    assert_eq!(judged(&behind_recoveries, &revived), Ok(Judgement::Hazard(hazard)));
    assert!(judged(&window, &revived).is_err());
    let mut more = revived.clone();
    remove(&mut more, "l");
    assert!(judged(&behind_recoveries, &more).is_err(), "another file is lost, too");
}

/// The zeros of a truncate are in memory alone, whatever else a cut of a recovery shows.
#[test]
fn a_lost_growth_is_allowed_beside_a_revived_target() {
    let hazards = guarantee("yaffs2").hazards;
    let hazard = hazards.iter().find(|one| one.name == "revived-target").expect("in the table");
    let tree = |bytes: &[u8]| tree_with("x", file(20, 0o644, bytes));
    let grown: Vec<u8> = [b'a'; 3000].into_iter().chain([0; 37]).collect();
    // `g` is renamed over `d/f`; then `d/f` is there with its old bytes, and `g` is not.
    let (mut revived, mut found) = (tree(&grown), tree(&grown[..3000]));
    remove(&mut revived, "g");
    remove(&mut found, "g");
    let mut renamed = tree(&grown);
    let moved = renamed.rows.remove(b"g".as_slice()).expect("a file");
    renamed.rows.insert(b"d/f".to_vec(), moved);
    let mut history = history("yaffs2", &[At::synced(&tree(&grown))]);
    history.push_behind_recoveries(revived, hazard);
    history.push(CUT_AT - 1, renamed, None);
    let window = history.window(CUT_AT);
    let behind_recoveries = Window { is_recovery_cut: true, ..window.clone() };
    let judged = |window: &Window, found| judge(&history, window, Torn::Nothing, found);
    assert_eq!(judged(&behind_recoveries, &found), Ok(Judgement::Hazard(&LOST_GROWTH)));
    assert!(judged(&window, &found).is_err());
    let mut more = found.clone();
    remove(&mut more, "l");
    assert!(judged(&behind_recoveries, &more).is_err(), "another name is lost, too");
}

/// Names that a directory gained while it was renamed, removed, or made again.
#[test]
fn a_directory_that_vanished_is_reported_beside_an_unsynced_call() {
    let made = tree_with("e", directory(30, 0o755));
    let linked = tree_with("e", symlink(30, b"g"));
    for kind in ["jffs2", "ubifs"] {
        let history = history(kind, &[At::synced(&standard()), At::unsynced(&made)]);
        for torn in ALL_TORN {
            let mut lost = made.clone();
            remove(&mut lost, "l");
            let mismatch = judged(&history, torn, &lost).expect_err("it was safe");
            assert_eq!((mismatch.was_safe, &mismatch.path[..]), (true, b"l".as_slice()));
            let mismatch = judged(&history, torn, &linked).expect_err("another kind");
            assert_eq!((mismatch.was_safe, &mismatch.path[..]), (false, b"e".as_slice()));
        }
    }
}
