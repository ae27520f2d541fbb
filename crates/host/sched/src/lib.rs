//! I/O schedulers of Linux as pure state machines over requests and the current time.
//!
//! Every scheduler is one file (or folder) that exports one [`SchedulerEntry`] for each kernel it
//! is modelled after; [`SCHEDULERS`] is the sorted table of them and the only other place a new one
//! is named. Around a scheduler stands an [`Elevator`]: merging, the dispatch list and the calls
//! that `block/elevator.c` makes. Nothing here uses a device, a thread or a clock: the caller
//! passes the time.

mod anticipatory;
mod best_next;
mod bfq;
mod cfq;
mod clock;
mod contract;
mod deadline;
mod elevator;
mod kyber;
mod lane_audit;
mod list;
mod mq_deadline;
mod none;
mod noop;
mod position_tree;
mod quasi_async;
mod queue;
mod queue_id;
mod queue_map;
pub mod replay;
mod request;
mod row;
mod sector_tree;
mod sfq;
mod sfq2;
mod table;
mod tag_depth;

pub use clock::Clock;
pub use contract::{BuildScheduler, MergeSide, Scheduler, SchedulerEntry};
pub use elevator::{Elevator, ElevatorOptions, Merged};
pub use list::{Links, List};
pub use quasi_async::{QUASI_ASYNC, QUEUE_PARAMETERS, QuasiAsync};
pub use queue::Queue;
pub use queue_map::QueueMap;
pub use request::{Bio, Class, Direction, Joins, Request, RequestId, Requests};
pub use sector_tree::SectorTree;
pub use settings::{Kind, Parameter, SettingError, Settings, Value};
pub use table::{OWN_SCHEDULERS, SCHEDULERS, find_scheduler, scheduler_names};

#[cfg(test)]
pub(crate) mod tests {
    use crate::{
        Bio, Class, Clock, Direction, Queue, Request, Scheduler, SchedulerEntry, Settings,
    };
    use std::collections::BTreeMap;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    pub(crate) const CLOCK: Clock = Clock { hz: 1000 };

    /// Checks that a call panics, with a message that contains `message`.
    pub(crate) fn panics_with(message: &str, call: impl FnOnce()) {
        let said = catch_unwind(AssertUnwindSafe(call)).expect_err(message);
        let said = said.downcast_ref::<String>().map_or_else(
            || said.downcast_ref::<&str>().copied().unwrap_or_default(),
            String::as_str,
        );
        assert!(said.contains(message), "{said:?} is not {message:?}");
    }

    pub(crate) fn defaults(entry: &SchedulerEntry) -> Settings {
        entry.settings(&BTreeMap::new()).expect("defaults")
    }

    /// A scheduler that has two reads of process 1 and an asynchronous write of process 2.
    pub(crate) fn filled<S: Scheduler>(mut scheduler: S) -> (S, Queue) {
        let mut queue = Queue::new(CLOCK, true, 128);
        for (pid, direction, sector) in
            [(1, Direction::Read, 0), (1, Direction::Read, 100), (2, Direction::Write, 200)]
        {
            let sync = direction == Direction::Read;
            let (class, level) = (Class::BestEffort, 4);
            let bio = Bio { pid, direction, sync, noidle: false, class, level, sector, sectors: 8 };
            let start_jiffies = CLOCK.jiffies(0);
            let request = Request { start_jiffies, sorted: true, ..Request::new(bio) };
            let id = queue.requests.add(request);
            queue.hash(id);
            scheduler.insert(0, id, &mut queue);
        }
        scheduler.audit(&queue);
        (scheduler, queue)
    }
}
