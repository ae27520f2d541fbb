//! None: no scheduler at all; each hardware queue gets its own requests in the order in which they came.
//!
//! Without a scheduler a request takes a tag of its hardware queue, and goes to the driver with it. What waits here waits
//! for such a tag, and cannot be merged with. So bios are merged in plugs alone.
//!
//! When to expect what: the least processor time, and nothing between processes but the arbitration of the device.
//!
//! Left out: software queues that hold requests for a short while when a driver was busy; several of them are then served
//! in turn (`blk_mq_do_dispatch_ctx`). NVMe has a place for each tag, so its driver is not.
//!
//! Source: Linux 6.1, `blk_mq_get_tag` of `block/blk-mq-tag.c`, `blk_mq_submit_bio` of `block/blk-mq.c`.

use crate::{Bio, Links, List, Queue, RequestId, Scheduler, SchedulerEntry};

pub(crate) const ENTRY: SchedulerEntry = SchedulerEntry {
    name: "none",
    aliases: &[],
    summary: "no scheduler: first in, first out in each hardware queue, merged in plugs alone",
    source: "Linux 6.1, block/blk-mq.c",
    parameters: &[],
    build: &|_, _| Box::new(Unscheduled::default()),
};

#[derive(Default)]
struct Unscheduled {
    /// Requests of each hardware queue.
    lists: Vec<List>,
    links: Links,
}

impl Unscheduled {
    /// Takes the first request of the first of these queues that has one.
    fn take(&mut self, mut queues: impl Iterator<Item = usize>) -> Option<RequestId> {
        queues.find_map(|place| self.lists.get_mut(place)?.pop_front(&mut self.links))
    }
}

impl Scheduler for Unscheduled {
    fn insert(&mut self, _now_ns: u64, id: RequestId, queue: &mut Queue) {
        let place = queue.map.hardware_queue(queue.requests[id].bio.pid);
        if self.lists.len() <= place {
            self.lists.resize(place + 1, List::default());
        }
        self.lists[place].push_back(&mut self.links, id);
    }

    fn dispatch(&mut self, _now_ns: u64, force: bool, queue: &mut Queue) -> u32 {
        let mut moved = 0;
        while let Some(id) = self.take(0..self.lists.len()) {
            queue.dispatch_tail(id);
            moved += 1;
            if !force {
                break;
            }
        }
        moved
    }

    fn dispatch_to(&mut self, hardware_queue: usize, _now_ns: u64, queue: &mut Queue) -> u32 {
        let Some(id) = self.take(hardware_queue..=hardware_queue) else { return 0 };
        queue.dispatch_tail(id);
        1
    }

    fn is_multi_queue(&self) -> bool {
        true
    }

    fn queued(&self) -> usize {
        self.lists.iter().map(List::len).sum()
    }

    fn uses_merge_caches(&self) -> bool {
        false
    }

    // Not called: nothing is merged here.
    fn absorb(&mut self, _: u64, _: RequestId, absorbed: RequestId, queue: &mut Queue) {
        let place = queue.map.hardware_queue(queue.requests[absorbed].bio.pid);
        self.lists[place].remove(&mut self.links, absorbed);
    }

    fn depth_limit(&self, _bio: &Bio, queue: &Queue) -> Option<u32> {
        // A tag each, and no batches beyond them (`blk_mq_get_tag`).
        Some(queue.nr_requests)
    }

    fn audit(&self, queue: &Queue) {
        for (place, list) in self.lists.iter().enumerate() {
            list.audit(&self.links);
            let is_own =
                |id: RequestId| queue.map.hardware_queue(queue.requests[id].bio.pid) == place;
            assert!(list.iter(&self.links).all(is_own), "a request is with its hardware queue");
        }
    }

    fn state_bytes(&self) -> usize {
        size_of::<Self>() + self.links.bytes() + self.lists.capacity() * size_of::<List>()
    }
}

#[cfg(test)]
mod tests {
    use super::{ENTRY, Unscheduled};
    use crate::tests::{defaults, filled, panics_with};
    use crate::{Bio, Class, Direction, Elevator, ElevatorOptions, QueueMap, RequestId, Scheduler};

    fn bio(pid: u32, sector: u64) -> Bio {
        let (direction, class) = (Direction::Read, Class::BestEffort);
        let (sync, noidle, level, sectors) = (true, false, 4, 8);
        Bio { pid, direction, sync, noidle, class, level, sector, sectors }
    }

    #[test]
    fn each_hardware_queue_has_its_own_requests_in_order() {
        let mut elevator = Elevator::new(&ENTRY, &defaults(&ENTRY), ElevatorOptions::default());
        elevator.queue_mut().map = QueueMap::new(2, 2);
        for (place, pid) in [1, 2, 1, 1, 2].into_iter().enumerate() {
            assert_eq!(elevator.try_merge(0, &bio(pid, 8 * place as u64)), None);
            elevator.insert(0, bio(pid, 8 * place as u64));
        }
        let mut next = |queue| elevator.next_for(queue, 0).map(|id| id.0);
        assert_eq!(
            [next(1), next(0), next(1), next(1), next(1)],
            [0, 1, 2, 3].map(Some).into_iter().chain([None]).collect::<Vec<_>>()[..]
        );
        assert_eq!([next(0), next(0)], [Some(4), None]);
    }

    #[test]
    fn a_request_with_another_queue_is_seen() {
        let (none, mut queue) = filled(Unscheduled::default());
        queue.map = QueueMap::new(2, 2);
        panics_with("a request is with its hardware queue", || none.audit(&queue));
        let (mut none, mut queue) = filled(Unscheduled::default());
        assert_eq!((none.dispatch(0, true, &mut queue), none.queued()), (3, 0));
        assert_eq!(queue.dispatch_list().next(), Some(RequestId(0)));
    }
}
