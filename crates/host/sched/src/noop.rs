//! NOOP: merge and pass through, in the order of arrival.
//!
//! Direction, process and priority are ignored. A request is joined only with its neighbour in the
//! list, so two that touch on the disk but not in the list stay apart.
//!
//! When to expect what: the least processor time; on a device without seeks as good as any until
//! writers fill the queue in front of readers.
//!
//! Source: Linux 2.6.29 to 3.4, `block/noop-iosched.c`.

use crate::{Links, List, Queue, RequestId, Scheduler, SchedulerEntry};

pub(crate) const ENTRY: SchedulerEntry = SchedulerEntry {
    name: "noop",
    aliases: &[],
    summary: "first in, first out, with merging",
    source: "Linux 2.6.29 to 3.4, block/noop-iosched.c",
    parameters: &[],
    build: &|_, _| Box::new(Noop::default()),
};

#[derive(Default)]
struct Noop {
    list: List,
    links: Links,
}

impl Scheduler for Noop {
    fn insert(&mut self, _now_ns: u64, id: RequestId, _queue: &mut Queue) {
        self.list.push_back(&mut self.links, id);
    }

    // One request a call, as `noop_dispatch` does; a forced call must leave nothing behind.
    fn dispatch(&mut self, _now_ns: u64, force: bool, queue: &mut Queue) -> u32 {
        let mut moved = 0;
        while let Some(id) = self.list.pop_front(&mut self.links) {
            // Sorted (`elv_dispatch_sort`): a forced drain leaves in the order of one sweep, calls
            // one by one do not.
            queue.dispatch_sort(id);
            moved += 1;
            if !force {
                break;
            }
        }
        moved
    }

    fn queued(&self) -> usize {
        self.list.len()
    }

    fn absorb(&mut self, _now_ns: u64, _survivor: RequestId, absorbed: RequestId, _: &mut Queue) {
        self.list.remove(&mut self.links, absorbed);
    }

    fn former(&self, id: RequestId, _queue: &Queue) -> Option<RequestId> {
        self.links.previous(id)
    }

    fn latter(&self, id: RequestId, _queue: &Queue) -> Option<RequestId> {
        self.links.next(id)
    }

    fn state_bytes(&self) -> usize {
        size_of::<Self>() + self.links.bytes()
    }
}
