//! Studies: a file names a workload, a stack and the axes to vary; this crate runs every
//! combination and answers with tidy rows.
//!
//! A run is a pure function of the resolved study: no clock, no thread inside it, named random
//! streams. Runs of one study go side by side, and their results are put in the order of the plan,
//! so that the digest does not depend on the number of workers.

mod axis_values;
mod block_choice;
mod block_stack;
mod braces;
mod cell_result;
mod cells;
mod checks;
mod collected;
mod columns;
mod error;
mod exact_times;
mod explain;
mod flash_aging;
mod ftl_device;
mod ioping;
mod iozone;
mod jobs;
mod layers;
mod life;
mod lifetime;
mod listing;
mod matrix;
mod metric;
mod mount_check;
mod overrides;
mod own_files;
mod pooled;
mod prepared_devices;
mod raw_host;
mod raw_nand;
mod replay;
mod replay_metrics;
mod requests;
mod results;
mod run;
mod run_timeline;
mod schedule;
mod scheduler_choice;
mod service_times;
mod setting_axes;
mod single;
mod stacks;
mod study_file;
mod study_parts;
mod time_parts;
#[cfg(test)]
mod toy;
mod values;
mod windows;
mod work;
mod workload;

pub use cell_result::DamagedCell;
pub use cells::{Cell, CellWorker, cells};
pub use columns::{CURVE_COLUMNS, Cells, NamedCells, ROW_COLUMNS};
pub use error::StudyError;
pub use exact_times::{ServiceTimeQuantiles, ServiceTimeSummary};
pub use explain::{ExplainOptions, Explanation, Step, explain};
pub use flash_aging::{FlashState, PercentOf};
pub use ftl_device::{DeviceOptions, build_device, check_geometry, find_part_or_file};
pub use jobs::{ExtraRuns, Host, JobSpec, Mechanism, QuickForm, SchedulerVariant, Timeline};
pub use life::{
    DeviceLifeOptions, Life, LifeEnd, LifeOptions, Reach, UBI, life_of_device, life_of_trace,
    part_cycles_within_ecc,
};
pub use listing::{device_row, listing};
pub use matrix::{Axis, Run};
pub use metric::Metric;
pub use own_files::OwnFile;
pub use raw_nand::Limits;
pub use replay::{HostCounters, Replay};
pub use replay_metrics::device_metrics;
pub use requests::{Request, Requests};
pub use results::{Curve, Measurement, Row, Rows, StudyResults, Table};
pub use run::{CellStore, run_study, run_study_with};
pub use schedule::{ScheduleOptions, schedule, schedule_events};
pub use single::{ReplayOptions, ReplayResults, replay_trace};
pub use stacks::Stack;
pub use study_file::{Preconditioning, Study, Workload, load, load_moved};
pub use values::{AxisKind, AxisValue, SettingValue};
pub use work::internal_error;
pub use workload::contract::WorkloadKind;
pub use workload::table::WORKLOADS;
