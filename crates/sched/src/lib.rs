//! I/O schedulers of Linux as pure state machines over requests and the current time.
//!
//! Every scheduler is one file (or folder) that exports one [`SchedulerEntry`] for each kernel it
//! is modelled after; [`SCHEDULERS`] is the sorted table of them and the only other place a new one
//! is named. Around a scheduler stands an [`Elevator`]: merging, the dispatch list and the calls
//! that `block/elevator.c` makes. Nothing here knows a device, a thread or a clock: the caller
//! says what time it is.

mod anticipatory;
mod cfq;
mod clock;
mod deadline;
mod elevator;
mod kyber;
mod list;
mod mq_deadline;
mod noop;
mod queue;
mod registry;
pub mod replay;
mod request;
mod row;
mod sector_tree;
mod sfq;
mod tag_depth;

pub use clock::Clock;
pub use elevator::{Elevator, ElevatorOptions, Merged};
pub use list::{Links, List};
pub use queue::Queue;
pub use registry::{
    MergeSide, SCHEDULERS, Scheduler, SchedulerEntry, find_scheduler, scheduler_names,
};
pub use request::{Bio, Class, Direction, Request, RequestId, Requests};
pub use sector_tree::SectorTree;
pub use settings::{Kind, Parameter, SettingError, Settings, Value};
