//! A watcher of the calls of a mount sees each call.

use fs_api::{Caller, Time};
use sim::Simulation;
use std::cell::RefCell;
use std::rc::Rc;
use vfs::{Call, CallKind, MemoryFileSystem, OpenOptions, Vfs};

const ROOT: Caller = Caller { uid: 0, gid: 0, now: Time::from_seconds(1_700_000_000) };

#[test]
fn every_call_is_told_with_its_bytes_until_nobody_watches() {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let vfs = Vfs::new(&sim, Rc::new(MemoryFileSystem::new(&ROOT)));
    let seen: Rc<RefCell<Vec<Call>>> = Rc::default();
    let told = seen.clone();
    sim.clone().spawn_named("test", async move {
        vfs.watch_calls(Some(Rc::new(move |call| told.borrow_mut().push(call))));
        let create = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
        let file = vfs.open(&ROOT, b"file", create).await.expect("made");
        vfs.write(&ROOT, &file, 0, &[1; 5000]).await.expect("written");
        vfs.fsync(&ROOT, &file).await.expect("synced");
        let mut bytes = [0; 8192];
        assert_eq!(vfs.read(&file, 4000, &mut bytes).await.expect("read"), 1000);
        vfs.unlink(&ROOT, b"missing").await.expect_err("not there");
        vfs.watch_calls(None);
        vfs.close(&ROOT, file).await.expect("closed");
        sim.stop();
    });
    simulation.run();
    let kinds: Vec<(CallKind, u64)> =
        seen.borrow().iter().map(|call| (call.kind, call.bytes)).collect();
    let expected = [
        (CallKind::Other, 0),
        (CallKind::Write, 5000),
        (CallKind::Sync, 0),
        (CallKind::Read, 1000),
        (CallKind::Other, 0),
    ];
    assert_eq!(kinds, expected);
}
