//! Wrappers of a file system answer as what they wrap, in every method of the contract: the methods are
//! taken from the contract's source, so that one that is added there is missed here.

use crate::support::probe::{Probe, exercise};
use crash::{Recorder, ShadowModel, Tree, find_guarantee};
use file_systems::KINDS;
use fs_api::{DynFileSystem, FileSystem};
use mount::{Driver, MTDBLOCK, MountRequest, run};
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage, find_part};
use std::collections::BTreeSet;
use std::rc::Rc;

const CONTRACT: &str = include_str!("../../../../host/fs_api/src/file_system.rs");
const SHARED_MOUNT: &str = include_str!("../../../mount/src/mounted.rs");

/// Names of the methods of `FileSystem`.
fn methods() -> BTreeSet<&'static str> {
    let (_, body) = CONTRACT.split_once("pub trait FileSystem {\n").expect("the contract");
    let (body, _) = body.split_once("\n}\n").expect("its end");
    let name = |line: &'static str| {
        let line = line.strip_prefix("    ")?;
        let line = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
        line.split(['(', '<']).next()
    };
    body.lines().filter_map(name).collect()
}

fn done<T>(job: impl Future<Output = T>) -> T {
    let mut job = std::pin::pin!(job);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match job.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("nothing here waits"),
    }
}

#[test]
fn the_probe_is_asked_for_every_method_of_the_contract() {
    let methods = methods();
    assert!(methods.len() > 30 && methods.contains("write_pages"), "{methods:?}");
    let probe = Probe::new();
    done(exercise(&probe));
    let asked: BTreeSet<&str> = probe.names().into_iter().collect();
    assert_eq!(asked, methods);
}

/// What is asked of the probe through a wrapper, and what comes back, is as without one.
fn assert_transparent(name: &str, exercised: impl FnOnce(Rc<Probe>) -> Vec<String>) {
    let bare = Probe::new();
    let answers = done(exercise(&bare));
    let wrapped = Rc::new(Probe::new());
    let answers_through = exercised(wrapped.clone());
    for (answer, through) in answers.iter().zip(&answers_through) {
        assert_eq!(through, answer, "{name}");
    }
    assert_eq!(answers_through.len(), answers.len(), "{name}");
    assert_eq!(wrapped.calls(), bare.calls(), "{name}");
}

#[test]
fn the_watcher_of_a_file_system_answers_as_the_file_system() {
    for kind in ["jffs2", "ubifs", "yaffs2"] {
        let guarantee = find_guarantee(kind).expect("in the table");
        assert_transparent(kind, |probe| {
            done(async {
                let tree = Tree::read(probe.quietly()).await.expect("it reads");
                let shadow = ShadowModel::new(guarantee, &tree).await.expect("a model");
                let recorder = Recorder::new(probe.clone(), || 0, Rc::new(shadow), "any");
                Box::pin(exercise(&recorder)).await
            })
        });
    }
}

#[test]
fn a_boxed_file_system_answers_as_the_file_system() {
    assert_transparent("DynFileSystem", |probe| done(exercise(DynFileSystem::from_ref(&*probe))));
}

/// [`mount::SharedMount`] answers some methods for its mount; all others it forwards.
#[test]
fn a_file_system_of_any_kind_forwards_every_method() {
    let own = ["memory", "shrink", "unmount"];
    let (_, body) = SHARED_MOUNT.split_once("impl FileSystem for SharedMount {").expect("its impl");
    for method in methods() {
        let forwards = body.contains(&format!("self.0.file_system().{method}("));
        let is_own = own.contains(&method) && body.contains(&format!("fn {method}("));
        assert!(forwards || is_own, "{method}");
    }
}

/// Answers that change how the layer above works.
fn habits(file_system: &(impl FileSystem + ?Sized)) -> (u64, u64, bool, bool, bool) {
    (
        file_system.root(),
        file_system.pages_at_once(),
        file_system.writes_back(),
        file_system.is_synchronous(),
        file_system.reads_ahead(),
    )
}

#[test]
fn a_file_system_of_any_kind_has_the_habits_of_its_kind() {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = 64;
    let driver = Driver::of_tool(find_layout("linux-large").expect("in the table"));
    for kind in KINDS.iter().filter(|kind| kind.usual_block_device == MTDBLOCK) {
        for options in [&[][..], &["sync".to_owned()]] {
            if !options.is_empty() && !kind.kernel.options.split(", ").any(|known| known == "sync")
            {
                continue;
            }
            let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
            let request = MountRequest { options: options.to_vec(), ..MountRequest::default() };
            let outcome = run(chip, &driver, 1, async move |machine| {
                let mounted = machine.mount(kind, &request).await.expect("mounted");
                let any = habits(&*mounted.file_system);
                let own = habits(mounted.file_system.file_system());
                mounted.unmount().await.expect("unmounted");
                (any, own)
            });
            let (any, own) = outcome.value.expect("no power cut");
            assert_eq!(any, own, "{} {options:?}", kind.name);
            assert_eq!(any.3, !options.is_empty(), "{} {options:?}", kind.name);
        }
    }
}
