//! After a cut: mount, look, write once, unmount, mount again.

use crate::card_cuts::Cached;
use crate::content::Content;
use crate::first_mount::FirstMount;
use crate::guarantee::TornModel;
use crate::history::{History, Window};
use crate::judge::judge;
use crate::judge_sectors::hazards;
use crate::judgement::Judgement;
use crate::reference::Setup;
use crate::tree::{Row, Tree};
use file_systems::find_kind;
use fs_api::Errno;
use mount::guarantee::{LOST_ATTRIBUTE, LOST_NAME, READ_ONLY};
use mount::{
    CardContents, Driver, Finding, Guarantee, Hazard, Machine, MountError, MountRequest, Mounted,
    Order, run,
};
use nand::{Chip, Torn};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use vfs::{OpenOptions, escape_path};

/// Kinds of violations of a guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ViolationKind {
    /// The file system cannot be mounted.
    Unmountable,
    /// Something cannot be read.
    Unreadable,
    /// What was safe is gone, or other than it was.
    Lost,
    /// What is shown is neither old nor new.
    Impossible,
    /// The file system reports damage that a cut does not explain.
    Finding,
    /// Work cannot go on.
    Stuck,
    /// The next mount shows something else.
    Unstable,
    /// The engine stopped with a defect of its own.
    Defect,
}

/// A violation without its cut point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: ViolationKind,
    pub(crate) path: String,
    pub(crate) expected: String,
    pub(crate) found: String,
    /// The hazard that explains it: the file system found what the hazard leaves.
    pub(crate) hazard: Option<&'static Hazard>,
}

impl Fault {
    fn new(kind: ViolationKind, path: &[u8], expected: &str, found: &dyn ToString) -> Self {
        let path = if path.is_empty() { ".".into() } else { escape_path(path) };
        Self { kind, path, expected: expected.into(), found: found.to_string(), hazard: None }
    }

    /// In words.
    pub(crate) fn told(&self) -> String {
        format!("{}: {}", self.path, self.found)
    }

    fn or_hazard(self) -> Result<Recovered, Self> {
        match self.hazard {
            Some(hazard) => {
                let failure = Some(self.told());
                Ok(Recovered { failure, ..Recovered::new(Judgement::Hazard(hazard), false) })
            }
            None => Err(self),
        }
    }
}

/// How a recovery went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recovered {
    pub(crate) judgement: Judgement,
    /// The write afterwards found no space.
    pub(crate) is_full: bool,
    /// Hazards that struck beside the one of the judgement, by their names.
    pub(crate) hazards: BTreeSet<&'static str>,
    /// What failed, where a hazard explains that nothing is shown.
    pub(crate) failure: Option<String>,
}

impl Recovered {
    pub(crate) fn new(judgement: Judgement, is_full: bool) -> Self {
        Self { judgement, is_full, hazards: BTreeSet::new(), failure: None }
    }
}

/// What a recovery showed from its mount to its end. It depends on the medium and on the setup alone, so it
/// is judged again, and not repeated, for a cut that leaves the same medium.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// What the first mount shows.
    pub(crate) found: Tree,
    /// The write afterwards found no space.
    is_full: bool,
    /// What the first mount had found wrong when all was read.
    findings_of_reading: Vec<Finding>,
    /// What it found wrong in all.
    findings: Vec<Finding>,
    /// What the second mount shows.
    after: Tree,
    /// Hazards that the checks found, by their names.
    checked: BTreeSet<&'static str>,
}

/// A cut to be judged: what may be found after it, and what is left of the operation that it tore.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub(crate) history: Arc<History>,
    pub(crate) window: Window,
    pub(crate) torn: Torn,
    /// The device kept some of the writes that no flush had covered, in any order.
    pub(crate) is_reordered: bool,
}

/// A hazard of what the medium holds in two copies, of which the damaged one counts.
struct Loss {
    hazard: &'static Hazard,
    /// Codes of findings of the mount, one of which tells of the damage.
    findings: &'static [&'static str],
    /// Puts what is lost back into a tree from that of a state.
    with_rest: fn(&Tree, &Tree) -> Tree,
}

const LOSSES: [Loss; 2] = [
    Loss {
        hazard: &LOST_ATTRIBUTE,
        findings: &["jffs2-damaged-attribute"],
        with_rest: Tree::with_attributes_of,
    },
    Loss {
        hazard: &LOST_NAME,
        findings: &["jffs2-damaged-name", "jffs2-no-node-of-inode"],
        with_rest: Tree::with_names_of,
    },
];

/// A recovery that was looked at.
pub(crate) struct Looked {
    pub(crate) recovered: Result<Recovered, Fault>,
    /// The recovery, if it came to its end.
    pub(crate) seen: Option<Seen>,
    /// What the first mount showed, whatever came behind it.
    pub(crate) shown: Option<Tree>,
    /// What the first mount did, if it was watched and did not fail.
    pub(crate) mount: Option<FirstMount>,
}

/// What is noted of a recovery on its way.
#[derive(Default)]
struct Look {
    shown: RefCell<Option<Tree>>,
    is_watched: bool,
    mount: RefCell<Option<FirstMount>>,
}

/// Recovers a chip, or a card, and judges what it shows.
pub(crate) fn recover(
    mut chip: Chip,
    card: CardContents,
    setup: &Setup,
    trial: &Trial,
    is_watched: bool,
) -> Looked {
    let look = Rc::new(Look { is_watched, ..Look::default() });
    let (given, trial, noted) = (setup.clone(), trial.clone(), look.clone());
    let driver = Driver::of_tool(setup.layout);
    if is_watched {
        FirstMount::begin(&mut chip);
    }
    let outcome = run(chip, &driver, setup.seed, async move |machine| {
        machine.card().insert(card, machine.mtd.size_bytes());
        if is_watched {
            machine.card().start_journal();
        }
        let seen = recover_on(&machine, &given, &trial, &noted).await;
        match seen {
            Ok((judgement, seen)) => (trial.judge_end(judgement, &seen), Some(seen)),
            // A device that keeps the order of writes leaves no such thing.
            Err(fault) if trial.is_reordered => (fault.or_hazard(), None),
            Err(fault) => (Err(fault), None),
        }
    });
    let (recovered, seen) = outcome.value.expect("the power is not cut again");
    let (shown, mount) = (look.shown.take(), look.mount.take());
    Looked { recovered, seen, shown, mount }
}

/// Judges a recovery of the same medium that was seen before.
pub(crate) fn judge_again(seen: &Seen, trial: &Trial) -> Result<Recovered, Fault> {
    trial.judge_end(trial.judge_found(&seen.found, &seen.findings_of_reading)?, seen)
}

impl Trial {
    pub(crate) fn new(history: &Arc<History>, window: Window, model: &TornModel) -> Self {
        let is_reordered = model.cached == Some(Cached::Reordered);
        Self { history: history.clone(), window, torn: model.torn, is_reordered }
    }

    /// Judges what the first mount shows, and found wrong while it was read.
    fn judge_found(&self, found: &Tree, findings: &[Finding]) -> Result<Judgement, Fault> {
        let judged = judge(&self.history, &self.window, self.torn, found);
        if judged.is_err()
            && let Some(hazard) = self.loss(found, findings)
        {
            return Ok(Judgement::Hazard(hazard));
        }
        judged.map_err(|mismatch| Fault {
            kind: if mismatch.was_safe { ViolationKind::Lost } else { ViolationKind::Impossible },
            path: if mismatch.path.is_empty() { ".".into() } else { escape_path(&mismatch.path) },
            expected: mismatch.expected,
            found: mismatch.found,
            hazard: None,
        })
    }

    /// The hazard by which the tree is one that is allowed, without attributes or names of a state. The file system
    /// must have told of what the hazard leaves: without that finding, what is missing stays a violation.
    fn loss(&self, found: &Tree, findings: &[Finding]) -> Option<&'static Hazard> {
        let states = &self.history.states()[self.window.states.clone()];
        let is_struck = |loss: &&Loss| {
            findings.iter().any(|finding| loss.findings.contains(&finding.code))
                && self.history.guarantee().hazards.contains(loss.hazard)
                && states.iter().rev().any(|state| {
                    let whole = (loss.with_rest)(found, &state.tree);
                    judge(&self.history, &self.window, self.torn, &whole).is_ok()
                })
        };
        LOSSES.iter().find(is_struck).map(|loss| loss.hazard)
    }

    /// Judges what comes after the first look.
    fn judge_end(&self, judgement: Judgement, seen: &Seen) -> Result<Recovered, Fault> {
        let Seen { found, is_full, findings, after, .. } = seen;
        let is_full = *is_full;
        match self.history.guarantee().order(self.torn) {
            Order::Sectors => return self.judge_end_of_sectors(judgement, seen),
            // Nothing is promised of what is shown, before the write or after it.
            Order::Pages => {
                let hazards = seen.checked.clone();
                return Ok(Recovered { hazards, ..Recovered::new(judgement, is_full) });
            }
            _ => {}
        }
        // A name of nothing may come to life with the number of a new file.
        if matches!(judgement, Judgement::Hazard(_)) {
            return Ok(Recovered::new(judgement, is_full));
        }
        let is_found = |code: &str| findings.iter().any(|finding| finding.code == code);
        let hazards = self.history.guarantee().hazards.iter();
        let mut explaining = hazards.filter(|hazard| hazard.finding.is_some_and(is_found));
        match compare_again(found, after, is_full) {
            Ok(()) => {}
            Err(fault) => {
                let hazard = explaining.next().ok_or(fault)?;
                return Ok(Recovered::new(Judgement::Hazard(hazard), is_full));
            }
        }
        let guarantee = self.history.guarantee();
        let told = findings.iter().find_map(|finding| guarantee.hazard_at_mount(finding.code));
        match check_findings(findings, &self.history, self.torn) {
            Ok(()) => Ok(Recovered::new(judgement, is_full)),
            Err(fault) if self.is_reordered => Fault { hazard: told, ..fault }.or_hazard(),
            Err(fault) => Err(fault),
        }
    }

    /// Judges what comes after the first look at a file system that repairs nothing: what was safe is there
    /// after the write, and everything else where no hazard struck.
    fn judge_end_of_sectors(&self, judgement: Judgement, seen: &Seen) -> Result<Recovered, Fault> {
        let Seen { found, is_full, findings, after, checked, .. } = seen;
        let own = hazards(&self.history, &self.window, found);
        let struck: BTreeSet<&'static str> =
            own.iter().map(|hazard| hazard.name).chain(checked.iter().copied()).collect();
        if struck.is_empty() {
            compare_again(found, after, *is_full)?;
        } else {
            // A file that is damaged may change with the next write: its clusters may count as free.
            self.judge_found(&without_witness(after), &[])?;
        }
        check_findings(findings, &self.history, self.torn)?;
        Ok(Recovered { hazards: struck, ..Recovered::new(judgement, *is_full) })
    }
}

/// What a second mount shows, without the file that was written between the mounts.
fn without_witness(after: &Tree) -> Tree {
    let mut tree = after.clone();
    tree.rows.remove(WITNESS);
    tree.unreadable.retain(|path| path != WITNESS);
    tree
}

async fn recover_on(
    machine: &Machine,
    setup: &Setup,
    trial: &Trial,
    look: &Look,
) -> Result<(Judgement, Seen), Fault> {
    let guarantee = trial.history.guarantee();
    let mounted = mount(machine, setup, guarantee).await?;
    // What a mount already found explains all that comes after it.
    let at_mount = mounted.file_system.findings().await;
    let hazard = at_mount.iter().find_map(|finding| guarantee.hazard_at_mount(finding.code));
    let seen = look_at(machine, setup, trial, look, mounted).await;
    seen.map_err(|fault| Fault { hazard: fault.hazard.or(hazard), ..fault })
}

async fn look_at(
    machine: &Machine,
    setup: &Setup,
    trial: &Trial,
    look: &Look,
    mounted: Mounted,
) -> Result<(Judgement, Seen), Fault> {
    let guarantee = trial.history.guarantee();
    let found = read(&mounted, guarantee).await?;
    look.shown.replace(Some(found.clone()));
    let mut checked = BTreeSet::new();
    check(&mounted, guarantee, &mut checked).await?;
    if look.is_watched {
        let kind = find_kind(setup.kind).expect("it was mounted");
        let mount = FirstMount::of(machine, kind, &setup.request, &mounted).await;
        look.mount.replace(Some(mount));
    }
    let findings_of_reading = mounted.file_system.findings().await;
    let judgement = trial.judge_found(&found, &findings_of_reading)?;
    let written = write_once(machine, &mounted).await;
    let is_full = written == Err(Errno::Enospc);
    if let Err(error) = written
        && !is_full
    {
        // Only a volume that was found damaged may refuse.
        if checked.is_empty() || !guarantee.hazards.contains(&READ_ONLY) {
            return Err(Fault::new(ViolationKind::Stuck, WITNESS, "a file can be written", &error));
        }
        checked.insert(READ_ONLY.name);
    }
    check(&mounted, guarantee, &mut checked).await?;
    if look.is_watched {
        let counters = mounted.file_system.statistics().await;
        if let Some(mount) = &mut *look.mount.borrow_mut() {
            mount.counters_after_write = counters;
        }
    }
    let findings = mounted.file_system.findings().await;
    let stuck = |error| Fault::new(ViolationKind::Stuck, b"", "an unmount", &error);
    match mounted.unmount().await {
        Err(_) if checked.contains(READ_ONLY.name) => {}
        other => other.map_err(stuck)?,
    }
    let again = mount(machine, setup, guarantee).await?;
    let after = read(&again, guarantee).await?;
    Ok((judgement, Seen { found, is_full, findings_of_reading, findings, after, checked }))
}

async fn mount(
    machine: &Machine,
    setup: &Setup,
    guarantee: &'static Guarantee,
) -> Result<Mounted, Fault> {
    let refused = |error: MountError| {
        let hazard = match &error {
            MountError::Damaged { code, .. } => guarantee.hazard_at_mount(code),
            _ => None,
        };
        let fault = Fault::new(ViolationKind::Unmountable, b"", "a mount", &error);
        Fault { hazard, ..fault }
    };
    let kind = find_kind(setup.kind).map_err(refused)?;
    // A kernel makes no file system on a device that a cut left blank.
    let request = MountRequest { formats_blank: !kind.is_on_block_device, ..setup.request.clone() };
    machine.mount(kind, &request).await.map_err(refused)
}

async fn read(mounted: &Mounted, guarantee: &'static Guarantee) -> Result<Tree, Fault> {
    match Tree::read_of(&*mounted.file_system, guarantee).await {
        Ok(tree) => Ok(tree),
        Err((path, error)) => {
            let found = with_findings(mounted, error).await;
            Err(Fault::new(ViolationKind::Unreadable, &path, "to be read", &found))
        }
    }
}

/// An error, with what the file system says about it.
async fn with_findings(mounted: &Mounted, error: Errno) -> String {
    let mut text = error.to_string();
    for finding in mounted.file_system.findings().await {
        text = text + "; " + &finding.text;
    }
    text
}

/// The file system's own check finds no contradiction but those that are hazards of it, which are counted.
async fn check(
    mounted: &Mounted,
    guarantee: &'static Guarantee,
    hazards: &mut BTreeSet<&'static str>,
) -> Result<(), Fault> {
    let checked = mounted.file_system.check().await;
    let complaints = checked
        .map_err(|error| Fault::new(ViolationKind::Unreadable, b"", "to be read", &error))?;
    for complaint in complaints {
        let Some(Hazard { name, .. }) = guarantee.hazard_of_finding(complaint.code) else {
            return Err(Fault::new(ViolationKind::Finding, b"", "no damage", &complaint));
        };
        hazards.insert(name);
    }
    Ok(())
}

fn check_findings(findings: &[Finding], history: &History, torn: Torn) -> Result<(), Fault> {
    let expected = history.guarantee().expected_findings;
    let is_expected = |finding: &&Finding| {
        expected.iter().any(|known| finding.code == known.code && known.torn.contains(&torn))
    };
    match findings.iter().find(|finding| !is_expected(finding)) {
        Some(finding) => Err(Fault::new(ViolationKind::Finding, b"", "no damage", &finding)),
        None => Ok(()),
    }
}

/// The file that is written after the recovery.
const WITNESS: &[u8] = b"written-after-the-cut";
const WITNESS_BYTES: usize = 6000;

/// Bytes that say where they belong: no two pages of them are the same.
// Computed by the compiler: each cut writes them, and compares with them.
static WITNESS_CONTENT: [u8; WITNESS_BYTES] = {
    let mut bytes = [0; WITNESS_BYTES];
    let mut at = 0;
    while at < WITNESS_BYTES {
        bytes[at] = (at * at / 7) as u8;
        at += 1;
    }
    bytes
};

async fn write_once(machine: &Machine, mounted: &Mounted) -> Result<(), Errno> {
    let (vfs, caller) = (&mounted.vfs, machine.root());
    let options = OpenOptions { create: Some(0o600), ..OpenOptions::default() };
    let file = vfs.open(&caller, WITNESS, options).await?;
    let written = vfs.write(&caller, &file, 0, &WITNESS_CONTENT).await;
    let closed = vfs.close(&caller, file).await;
    written.and(closed)
}

/// After the next mount all is as it was before it, and the file written in between is there.
fn compare_again(before: &Tree, after: &Tree, is_full: bool) -> Result<(), Fault> {
    let witness = after.rows.get(WITNESS);
    let is_whole =
        witness.as_ref().is_some_and(|row| row.content == Content::new(&WITNESS_CONTENT));
    if !is_whole && !is_full {
        let found = witness.map_or("nothing".into(), |row| row.describe());
        return Err(Fault::new(ViolationKind::Unstable, WITNESS, "all that was written", &found));
    }
    // Pair by pair, since both are sorted: no other tree is made where nothing differs.
    let others = || after.rows.iter().filter(|(path, _)| *path != WITNESS);
    let is_same = |one: (&Vec<u8>, &Arc<Row>), other: (&Vec<u8>, &Arc<Row>)| {
        one.0 == other.0 && one.1.is_same(other.1)
    };
    let mut pairs = before.rows.iter().zip(others());
    if before.rows.len() != others().count() || !pairs.all(|(one, other)| is_same(one, other)) {
        let rows = others().map(|(path, row)| (path.clone(), row.clone())).collect();
        return Err(unstable(before, &Tree { rows, ..Tree::default() }));
    }
    match after.dangling.first() {
        Some(path) => {
            let found = "a name of nothing";
            Err(Fault::new(ViolationKind::Unstable, path, "no such name", &found))
        }
        None => Ok(()),
    }
}

/// The first path at which trees differ that should be the same.
fn unstable(before: &Tree, after: &Tree) -> Fault {
    let path = before.first_difference(after).unwrap_or_default();
    let describe =
        |tree: &Tree| tree.rows.get(&path).map_or("nothing".into(), |row| row.describe());
    let (expected, mut found) = (describe(before), describe(after));
    if expected == found {
        found += ", with other bytes";
    }
    Fault::new(ViolationKind::Unstable, &path, &expected, &found)
}

#[cfg(test)]
mod tests {
    use super::{Trial, ViolationKind, WITNESS, WITNESS_CONTENT, check_findings, compare_again};
    use crate::guarantee::find_guarantee;
    use crate::history::History;
    use crate::judgement::Judgement;
    use crate::tree::Tree;
    use crate::tree::made_up::tree;
    use mount::guarantee::{LOST_ATTRIBUTE, LOST_NAME};
    use mount::{Finding, Place, Severity};
    use nand::Torn;
    use std::sync::Arc;

    /// What is found where `before` was, with the file that was written in between; path and words.
    fn compared(before: &Tree, after: &Tree, witness: Option<&[u8]>, is_full: bool) -> String {
        let mut after = after.clone();
        if let Some(bytes) = witness {
            let name = std::str::from_utf8(WITNESS).expect("letters");
            after.rows.extend(tree(&[(name, bytes)]).rows);
        }
        match compare_again(before, &after, is_full) {
            Ok(()) => "the same".to_owned(),
            Err(fault) => {
                assert_eq!(fault.kind, ViolationKind::Unstable);
                format!("{}: {}; {}", fault.path, fault.expected, fault.found)
            }
        }
    }

    #[test]
    fn what_was_written_after_the_cut_is_there_with_its_bytes_unless_the_medium_was_full() {
        let (before, bytes) = (tree(&[("f", b"bytes")]), WITNESS_CONTENT);
        assert_eq!(compared(&before, &before, Some(&bytes), false), "the same");
        let missing = "written-after-the-cut: all that was written; nothing";
        assert_eq!(compared(&before, &before, None, false), missing);
        let (short, mut wrong) = (&bytes[..4096], bytes);
        wrong[5999] ^= 1;
        for (found, size) in [(short, 4096), (&wrong, 6000)] {
            let explained = compared(&before, &before, Some(found), false);
            let end = format!("all that was written; f 0644 0:0 links 1, {size} bytes");
            assert!(explained.ends_with(&end), "{explained}");
            assert_eq!(compared(&before, &before, Some(found), true), "the same", "no space");
        }
        assert_eq!(compared(&before, &before, None, true), "the same");
        // The pages of the file are not alike: one in the place of the other would be seen.
        assert_ne!(bytes[..1904], bytes[4096..]);
        let kinds: std::collections::BTreeSet<u8> = bytes.iter().copied().collect();
        assert!(kinds.len() > 100, "{}", kinds.len());
    }

    #[test]
    fn a_second_mount_that_shows_something_else_is_told_with_its_path() {
        let (before, bytes) = (tree(&[("a", b"a"), ("f", b"bytes")]), WITNESS_CONTENT);
        let explained = |after: &Tree, is_full| compared(&before, after, Some(&bytes), is_full);
        let five = "f: f 0644 0:0 links 1, 5 bytes;";
        for is_full in [false, true] {
            let other = tree(&[("a", b"a"), ("f", b"bites")]);
            let with_others = format!("{five} f 0644 0:0 links 1, 5 bytes, with other bytes");
            assert_eq!(explained(&other, is_full), with_others);
            let shorter = tree(&[("a", b"a"), ("f", b"byte")]);
            assert_eq!(explained(&shorter, is_full), format!("{five} f 0644 0:0 links 1, 4 bytes"));
            assert_eq!(explained(&tree(&[("a", b"a")]), is_full), format!("{five} nothing"));
            let more = tree(&[("a", b"a"), ("b", b""), ("f", b"bytes")]);
            assert_eq!(explained(&more, is_full), "b: nothing; f 0644 0:0 links 1, 0 bytes");
            let mut dangling = before.clone();
            dangling.dangling.push(b"x".to_vec());
            assert_eq!(explained(&dangling, is_full), "x: no such name; a name of nothing");
        }
    }

    fn finding(code: &'static str) -> Finding {
        Finding { code, severity: Severity::Damage, place: Place::Whole, text: code.to_owned() }
    }

    #[test]
    fn what_is_missing_is_a_hazard_only_where_the_file_system_told_of_the_damage() {
        let mut whole = tree(&[("f", b"bytes"), ("g", b"g")]);
        let row = Arc::make_mut(whole.rows.get_mut(b"f".as_slice()).expect("made"));
        row.facts.extended.insert(b"user.a".to_vec(), b"1".to_vec());
        let judged = |kind: &str, found: &Tree, code: &'static str| {
            let history = History::new(find_guarantee(kind).expect("in the table"), whole.clone());
            let window = history.window(1);
            let history = Arc::new(history);
            let trial = Trial { history, window, torn: Torn::Nothing, is_reordered: false };
            trial.judge_found(found, &[finding(code)]).map_err(|fault| fault.kind)
        };
        let (attribute, node) = ("jffs2-damaged-attribute", "jffs2-no-node-of-inode");
        let name = "jffs2-damaged-name";
        assert_eq!(judged("jffs2", &whole, attribute), Ok(Judgement::State));
        let without_attribute = tree(&[("f", b"bytes"), ("g", b"g")]);
        let mut without_name = whole.clone();
        without_name.rows.remove(b"g".as_slice());
        for (found, code, other, hazard) in [
            (&without_attribute, attribute, node, &LOST_ATTRIBUTE),
            (&without_name, node, attribute, &LOST_NAME),
            (&without_name, name, attribute, &LOST_NAME),
        ] {
            assert_eq!(judged("jffs2", found, code), Ok(Judgement::Hazard(hazard)));
            // Another finding explains nothing, and no other file system has the hazard.
            assert_eq!(judged("jffs2", found, other), Err(ViolationKind::Lost));
            assert!(judged("ubifs", found, code).is_err());
            // What else is wrong stays so.
            let mut bites = found.clone();
            bites.rows.extend(tree(&[("f", b"bites")]).rows);
            assert!(judged("jffs2", &bites, code).is_err());
        }
    }

    #[test]
    fn findings_are_expected_by_their_codes_and_by_what_the_cut_left() {
        let history = History::new(find_guarantee("jffs2").expect("in the table"), Tree::default());
        let found = |findings: &[&'static str], torn| {
            let findings: Vec<Finding> = findings.iter().copied().map(finding).collect();
            let fault = check_findings(&findings, &history, torn).err();
            fault.map(|fault| (fault.kind, fault.path, fault.found))
        };
        let (damaged, nodeless) = ("jffs2-damaged-node", "jffs2-no-node-of-inode");
        assert_eq!(found(&[], Torn::Nothing), None);
        for torn in [Torn::Nothing, Torn::Prefix, Torn::DataOnly] {
            assert_eq!(found(&[damaged, damaged], torn), None, "{torn:?}");
        }
        assert_eq!(found(&[damaged, nodeless], Torn::Prefix), None);
        let unexplained = Some((ViolationKind::Finding, ".".to_owned(), nodeless.to_owned()));
        assert_eq!(found(&[damaged, nodeless], Torn::Nothing), unexplained);
        let strange = Some((ViolationKind::Finding, ".".to_owned(), "strange".to_owned()));
        assert_eq!(found(&[damaged, "strange"], Torn::Prefix), strange);
    }
}
