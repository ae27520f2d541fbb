//! Takes clients in, a thread each, and looks after the supply while none of them asks for anything.

use crate::connection::{Connection, End};
use crate::shared::{Shared, lock};
use crate::socket::{Listener, Socket};
use crate::work::Failure;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often threads that wait look whether the server stops.
const LOOK_NS: i64 = 20_000_000;

/// How often it is looked whether the supply has failed by itself while no client asks for anything.
const WATCH: Duration = Duration::from_millis(1);

/// A moment may be met so much later without notice: the default of Linux, 50 us, is a third of a card's latency.
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::MIN;

/// Connections at a time; each has a thread.
const CONNECTIONS_MAX: usize = 256;

/// Accepts clients until the server stops.
pub(crate) fn accept_all(shared: &Arc<Shared>, listener: &Listener) {
    let mut clients: BTreeMap<u64, JoinHandle<()>> = BTreeMap::new();
    while !shared.is_stopping() {
        let look = Timespec { tv_sec: 0, tv_nsec: LOOK_NS };
        let mut polled = [PollFd::new(listener, PollFlags::IN)];
        // An interrupted wait is like one that found nothing.
        let _ = poll(&mut polled, Some(&look));
        clients.retain(|_, thread| !thread.is_finished());
        let socket = match listener.accept() {
            Ok(socket) => socket,
            Err(error) => {
                // Without a free descriptor the client stays in the queue, and waiting for it would not wait.
                if error.kind() != ErrorKind::WouldBlock {
                    thread::sleep(Duration::from_nanos(LOOK_NS as u64));
                }
                continue;
            }
        };
        // A device without power answers nobody.
        let gate = shared.gate.read().unwrap_or_else(PoisonError::into_inner);
        if !gate.is_open || lock(&shared.connections).len() >= CONNECTIONS_MAX {
            socket.shut();
            continue;
        }
        // Under the gate: a cut that comes now finds the connection in the list.
        if let Some((number, thread)) = begin(shared, socket, gate.cuts) {
            clients.insert(number, thread);
        }
    }
    for (_, thread) in clients {
        let _ = thread.join();
    }
}

/// Starts the thread of a client.
fn begin(shared: &Arc<Shared>, socket: Socket, cuts: u64) -> Option<(u64, JoinHandle<()>)> {
    socket.set_nonblocking().ok()?;
    let copy = socket.try_clone().ok()?;
    let number = shared.accepted.fetch_add(1, Ordering::Relaxed);
    lock(&shared.connections).insert(number, copy);
    let begun = Arc::clone(shared);
    let shared = Arc::clone(shared);
    let thread = thread::Builder::new().name(format!("client {number}")).spawn(move || {
        // Without it, moments are met up to 50 us late; with less right the default stays.
        let _ = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK_NS));
        let end = Connection::new(&shared, socket, cuts).run();
        if let End::Broken(_) = end {
            shared.broken.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(socket) = lock(&shared.connections).remove(&number) {
            socket.shut();
        }
    });
    if let Ok(thread) = thread {
        return Some((number, thread));
    }
    // No thread can be started: the client is told by the end of its connection.
    if let Some(socket) = lock(&begun.connections).remove(&number) {
        socket.shut();
    }
    None
}

/// Looks whether the supply fails by itself while no client asks for anything.
pub(crate) fn watch(shared: &Shared) {
    while !shared.is_stopping() && shared.is_armed() {
        let now_ns = shared.clock.now_ns();
        let mut core = shared.core();
        let passed = core.pass_time(now_ns);
        let has_failed = core.failed_ns().is_some_and(|at_ns| at_ns <= now_ns);
        let cuts = core.cuts();
        drop(core);
        if let Err(failure @ Failure::File { .. }) = passed {
            shared.fail(&failure.to_string());
        } else if has_failed {
            shared.cut_after(cuts);
        }
        thread::sleep(WATCH);
    }
}
