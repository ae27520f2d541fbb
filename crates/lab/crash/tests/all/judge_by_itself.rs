//! The judge where each name and each file is judged by itself: JFFS2 after a torn page. And what the words
//! of a report say.

use crate::support::trees::{At, change_content, edit, file, guarantee, remove, standard, told};
use crash::{History, Judgement, Mismatch, Tree, judge};
use nand::Torn;

fn history(kind: &str, steps: &[At]) -> History {
    let mut history = History::new(guarantee(kind), steps[0].tree.clone());
    for (number, step) in (1..).zip(&steps[1..]) {
        step.tell(&mut history, 10 * number);
    }
    history
}

fn judged(history: &History, torn: Torn, found: &Tree) -> Result<Judgement, Mismatch> {
    judge(history, &history.window(1000), torn, found)
}

fn with(path: &str, inode: u64, bytes: &[u8]) -> Tree {
    let mut tree = standard();
    tree.rows.insert(path.as_bytes().to_vec(), file(inode, 0o644, bytes));
    tree
}

/// A name that leads to another file now: neither may be there yet, or any more.
#[test]
fn a_name_that_was_made_anew_may_be_missing() {
    let (old, new) = (with("x", 20, b"old"), with("x", 21, b"new"));
    let remade = history("jffs2", &[At::synced(&old), At::unsynced(&new)]);
    assert_eq!(judged(&remade, Torn::Prefix, &standard()), Ok(Judgement::PartOfWrite));
    let mismatch = judged(&remade, Torn::Nothing, &standard()).expect_err("calls are in order");
    assert_eq!(mismatch.path, b"x", "{}", told(&mismatch));
    // A name of the same file that was written stays.
    let written = history("jffs2", &[At::synced(&old), At::written(&with("x", 20, b"new"), 20)]);
    let mismatch = judged(&written, Torn::Prefix, &standard()).expect_err("the name was safe");
    assert_eq!(mismatch.path, b"x", "{}", told(&mismatch));
}

/// A name whose inode cannot be read is looked at by itself, and is no reason to refuse the tree.
#[test]
fn an_unreadable_new_file_is_allowed_after_a_torn_page_alone() {
    let history =
        history("jffs2", &[At::synced(&standard()), At::unsynced(&with("x", 20, b"new"))]);
    let mut found = standard();
    found.unreadable.push(b"x".to_vec());
    assert_eq!(judged(&history, Torn::DataOnly, &found), Ok(Judgement::State));
    let mismatch = judged(&history, Torn::Nothing, &found).expect_err("no page was torn");
    assert_eq!((mismatch.was_safe, &mismatch.path[..]), (false, b"x".as_slice()));
}

/// Names stand in a directory by its number, so a name that was deleted can be back under another path.
#[test]
fn a_name_is_old_or_new_in_a_directory_that_was_renamed() {
    let at = |paths: &[(&str, u64)]| {
        let mut tree = standard();
        for (path, inode) in paths {
            tree.rows.insert(path.as_bytes().to_vec(), file(*inode, 0o644, b"bytes"));
        }
        tree
    };
    let made = at(&[("p", 30), ("p/q", 31), ("p/q/x", 32)]);
    let deleted = at(&[("p", 30), ("p/q", 31)]);
    let renamed = at(&[("n", 30), ("n/q", 31)]);
    let steps = [At::synced(&made), At::unsynced(&deleted), At::unsynced(&renamed)];
    let history = history("jffs2", &steps);
    let back = at(&[("n", 30), ("n/q", 31), ("n/q/x", 32)]);
    assert_eq!(judged(&history, Torn::DataOnly, &back), Ok(Judgement::PartOfWrite));
    // The records are in order where no page was torn.
    judged(&history, Torn::Nothing, &back).expect_err("it was deleted before the rename");
    // A name that the directory never had stays wrong, and so does one of another directory.
    for path in ["n/q/y", "n/x"] {
        let strange = at(&[("n", 30), ("n/q", 31), (path, 32)]);
        let mismatch = judged(&history, Torn::DataOnly, &strange).expect_err("never there");
        assert_eq!(mismatch.path, path.as_bytes(), "{}", told(&mismatch));
    }
}

/// The links of a file that is being renamed may be reported with one of its names or with both.
#[test]
fn links_are_not_compared_while_a_file_is_renamed() {
    let (old, new) = (with("x", 20, b"bytes"), with("y", 20, b"bytes"));
    let renamed = history("jffs2", &[At::synced(&old), At::unsynced(&new)]);
    let mut both = new.clone();
    both.rows.insert(b"x".to_vec(), old.rows[b"x".as_slice()].clone());
    for path in ["x", "y"] {
        edit(&mut both, path, |row| row.facts.links = 2);
    }
    assert_eq!(judged(&renamed, Torn::Prefix, &both), Ok(Judgement::PartOfWrite));
    // Of a file that keeps its name they are, beside a call that concerns another.
    let mut other = new.clone();
    edit(&mut other, "g", |row| row.facts.links = 2);
    let mismatch = judged(&renamed, Torn::Prefix, &other).expect_err("nobody renames it");
    assert_eq!((mismatch.was_safe, &mismatch.path[..]), (true, b"g".as_slice()));
    // Links that differ between the states are those of one of the calls.
    let mut linked = old.clone();
    edit(&mut linked, "x", |row| row.facts.links = 2);
    linked.rows.insert(b"y".to_vec(), linked.rows[b"x".as_slice()].clone());
    let linked_history = history("jffs2", &[At::synced(&old), At::unsynced(&linked)]);
    let mut half = linked.clone();
    remove(&mut half, "y");
    assert_eq!(judged(&linked_history, Torn::Prefix, &half), Ok(Judgement::PartOfWrite));
}

/// A file that was made shorter and longer again may show anything where it was cut, and nothing else.
#[test]
fn an_old_tail_is_told_by_its_name_and_only_behind_the_end() {
    let mut grown = vec![b'a'; 1000];
    grown.resize(3000, 0);
    let steps =
        [At::synced(&with("x", 20, &[b'a'; 1000])), At::written(&with("x", 20, &grown), 20)];
    let history = history("jffs2", &steps);
    let mut tail = grown.clone();
    tail[1000..].fill(b'q');
    let told_hazard = |found: &Tree, torn| match judged(&history, torn, found) {
        Ok(Judgement::Hazard(hazard)) => Ok(hazard.name),
        Ok(_) => Ok("none"),
        Err(mismatch) => Err(told(&mismatch)),
    };
    assert_eq!(told_hazard(&with("x", 20, &tail), Torn::Prefix), Ok("old-tail"));
    assert_eq!(told_hazard(&with("x", 20, &tail[..2000]), Torn::Prefix), Ok("old-tail"));
    assert_eq!(told_hazard(&with("x", 20, &grown), Torn::Prefix), Ok("none"));
    assert!(told_hazard(&with("x", 20, &tail), Torn::Nothing).is_err(), "no page was torn");
    tail[999] = b'q';
    assert!(told_hazard(&with("x", 20, &tail), Torn::Prefix).is_err(), "before the end");
    assert!(told_hazard(&with("x", 20, &tail[..999]), Torn::Prefix).is_err(), "it is shorter");
}

/// A mixture is one of the file's own versions, and not of another file that was written.
#[test]
fn chunks_are_those_of_the_file_that_was_written() {
    let mut both = with("x", 20, &[b'a'; 4096]);
    both.rows.insert(b"z".to_vec(), file(21, 0o644, &[b'a'; 4096]));
    let mut written = both.clone();
    written.rows.insert(b"z".to_vec(), file(21, 0o644, &[b'b'; 4096]));
    let history = history("yaffs2", &[At::synced(&both), At::written(&written, 21)]);
    let mut half = both.clone();
    edit(&mut half, "z", |row| change_content(row, |bytes| bytes[..2048].fill(b'b')));
    assert_eq!(judged(&history, Torn::Nothing, &half), Ok(Judgement::PartOfWrite));
    let mut wrong = both.clone();
    edit(&mut wrong, "x", |row| change_content(row, |bytes| bytes[..2048].fill(b'b')));
    let mismatch = judged(&history, Torn::Nothing, &wrong).expect_err("x was not written");
    assert_eq!((mismatch.was_safe, &mismatch.path[..]), (true, b"x".as_slice()));
}

/// YAFFS2 cuts a file off with one object header (`yaffs_resize_file` of `yaffs_guts.c`): the size is the
/// old one or the new one. Chunks that are written one by one are no reason to accept a size between them.
#[test]
fn a_file_that_was_cut_off_has_no_size_between_the_old_and_the_new() {
    let (long, short) = (with("x", 20, &[b'a'; 4096]), with("x", 20, &[b'a'; 1024]));
    let cut_off = history("yaffs2", &[At::synced(&long), At::unsynced(&short)]);
    // The call began before operation 5 and has not returned at operation 7.
    let found = |tree: &Tree| judge(&cut_off, &cut_off.window(7), Torn::Nothing, tree);
    for whole in [&long, &short] {
        assert_eq!(found(whole), Ok(Judgement::State));
    }
    let between = with("x", 20, &[b'a'; 2048]);
    let mismatch = found(&between).expect_err("no write was under way");
    assert_eq!(mismatch.path, b"x", "{}", told(&mismatch));
    // The same sizes, but a write led from one to the other: then it may be between.
    let written = history("yaffs2", &[At::synced(&short), At::written(&long, 20)]);
    assert_eq!(judged(&written, Torn::Nothing, &between), Ok(Judgement::PartOfWrite));
}

/// A report names what no state explains: a file that is missing, and not one before it in the order of
/// names that an old state does not have either.
#[test]
fn a_report_passes_over_a_name_that_was_not_made_yet() {
    let old = with("x", 20, b"old");
    let mut new = with("x", 20, b"newer");
    new.rows.insert(b"a".to_vec(), file(30, 0o644, b""));
    let history = history("jffs2", &[At::synced(&old), At::unsynced(&new)]);
    let mismatch = judged(&history, Torn::Nothing, &standard()).expect_err("x is in all states");
    assert_eq!(mismatch.path, b"x", "{}", told(&mismatch));
}

/// Where old and new differ in what a line shows, both are shown; what is missing in both is passed over.
#[test]
fn a_report_tells_old_and_new() {
    let mut old = with("x", 20, b"old");
    old.rows.insert(b"a".to_vec(), file(30, 0o644, b""));
    let mut new = with("x", 20, b"newer");
    new.rows.insert(b"b".to_vec(), file(31, 0o644, b""));
    for (kind, torn) in [("jffs2", Torn::Nothing), ("jffs2", Torn::Prefix)] {
        let history = history(kind, &[At::synced(&old), At::unsynced(&new)]);
        let mut found = with("x", 20, b"neither");
        found.rows.insert(b"b".to_vec(), file(31, 0o644, b""));
        let mismatch = judged(&history, torn, &found).expect_err("it is neither");
        let Mismatch { was_safe, path, expected, found } = &mismatch;
        assert_eq!((*was_safe, &path[..]), (false, b"x".as_slice()), "{}", told(&mismatch));
        assert_eq!(
            expected, "f 0644 0:0 links 1, 3 bytes or f 0644 0:0 links 1, 5 bytes",
            "{torn:?}"
        );
        assert_eq!(found, "f 0644 0:0 links 1, 7 bytes", "{torn:?}");
    }
}
