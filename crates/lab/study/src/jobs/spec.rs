//! What a study file says about processes, host and device.

use crate::axis_values::read_axes;
use crate::values::{AxisValue, SettingValue};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The host and the device it writes to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Catalogue name of the board.
    pub board: String,
    /// Ticks a second, instead of the board's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hz: Option<u32>,
    /// Version of the kernel, instead of the board's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Catalogue name of the device, or a file that ends in `.toml`, unless `device` is an axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Block device under file systems, unless `block_device` is an axis: `mtdblock`, which is also
    /// meant if nothing is said, a catalogue name, or a device file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_device: Option<String>,
    /// Bytes at the end of the device that hold the files of the jobs. They are written before the
    /// jobs run, as everything before them is.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub free_bytes: u64,
    /// Share of the filled pages rewritten at random before the start, in percent: the age of the
    /// device. Random overwrites go on until every die cleans.
    #[serde(default)]
    pub overwritten_percent: u32,
    /// What the device holds before the start, instead: `none`, `fill`, `random:PERCENT` or `steady`, as
    /// `nandlab replay` has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precondition: Option<String>,
    /// Limit of requests (`nr_requests`).
    #[serde(default = "default_nr_requests")]
    pub nr_requests: u32,
    /// Largest request that merging may form, in KiB (`max_sectors_kb`).
    #[serde(default = "default_max_sectors_kb")]
    pub max_sectors_kb: u32,
}

/// Counts that are 0 by default are left out of the resolved study.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

const fn default_nr_requests() -> u32 {
    // `BLKDEV_MAX_RQ`.
    128
}

const fn default_max_sectors_kb() -> u32 {
    // `BLK_DEF_MAX_SECTORS` is 1024 sectors.
    512
}

/// A job, in fio's words; `{axis}` in a text is replaced by the value of the axis.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of fio's jobs, by its name")]
pub struct JobSpec {
    /// Name under which results stand.
    pub name: String,
    /// Processes that do the job (`numjobs`).
    pub processes: u32,
    /// `read`, `write`, `randread`, `randwrite`, `rw` or `randrw`.
    pub rw: String,
    /// Share of reads for `rw` and `randrw`, in percent.
    #[serde(default = "half")]
    pub rwmixread: u32,
    /// Bytes of a request, with fio's suffixes; or those of reads and of writes, with a comma between them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bs: String,
    /// Smallest and largest size, with a stroke between them, instead of `bs`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bsrange: String,
    /// Sizes and their percent of the requests, `4k/60:64k/40`, instead of `bs`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bssplit: String,
    /// Random requests begin at multiples of it; without it at those of their smallest size.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub blockalign: String,
    /// A random pass touches each block once, as fio's do without `norandommap`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub random_map: bool,
    /// Percent of the requests of a random job at random places; the others follow the one before.
    #[serde(default = "all_of_them", skip_serializing_if = "is_all_of_them")]
    pub percentage_random: u32,
    /// Requests that a process has under way.
    #[serde(default = "one")]
    pub iodepth: u32,
    /// Counted requests of each process; may be absent if `runtime` ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Bytes that each process moves; may be absent if requests or `runtime` end it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_size: Option<String>,
    /// Times that each process does its job, from the begin of its region.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub loops: u32,
    /// What is written is read again, when the job is done with a pass or after `verify_backlog` writes. The
    /// contents are not compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub verify: bool,
    /// Writes after which they are read; 0 for after a pass.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub verify_backlog: u64,
    /// Reads at a time; 0 for `verify_backlog`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub verify_backlog_batch: u64,
    /// The job begins when all processes of the jobs before it have ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stonewall: bool,
    /// Number that jobs of a group share; for `exit_what`.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub group: u32,
    /// When a process of the job ends, these end as well: those of the `group`, of all jobs that run (`stonewall`),
    /// or of `all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_what: Option<String>,
    /// Weight of the job's requests against those of other jobs with the same `flow_id`; 0 for none.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub flow: u32,
    /// Number of the flow.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub flow_id: u32,
    /// Microseconds that a process sleeps when it is ahead of its flow; 0 to wait for the others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub flow_sleep_us: u64,
    /// The number of requests under way is the largest that keeps this latency, with fio's suffixes; `iodepth` is
    /// the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_target: Option<AxisValue>,
    /// Each number is tried for so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_window: Option<AxisValue>,
    /// Percent of the requests that must keep the latency.
    #[serde(default = "whole", skip_serializing_if = "is_whole")]
    pub latency_percentile: f64,
    /// The number goes on to change when it was found.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub latency_run: bool,
    /// The job ends when its rate is steady: `iops`, `bw`, `iops_slope` or `bw_slope`, a colon, and the limit, in
    /// percent of the mean with a percent sign.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub steadystate: String,
    /// Seconds that are looked at together.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub ss_dur_s: u32,
    /// Seconds at the beginning that are not looked at.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub ss_ramp_s: u32,
    /// All jobs of the group are looked at together.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ss_of_group: bool,
    /// Bytes that are moved in a part of the region before the next one begins.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub zonesize: String,
    /// Bytes of a part; as many as `zonesize` if nothing is said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub zonerange: String,
    /// Bytes between two parts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub zoneskip: String,
    /// Time after the ramp at which the job ends, with fio's suffixes; a bare number is seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<AxisValue>,
    /// Time at the beginning whose requests are not counted, with fio's suffixes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ramp_time: Option<AxisValue>,
    /// `direct`, `sync` or `buffered`.
    pub mode: String,
    /// Microseconds between a completion and the next request.
    #[serde(default = "zero")]
    pub thinktime_us: AxisValue,
    /// Requests a second of each process; absent for a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_iops: Option<u64>,
    /// Time from one request of a process to the next, with fio's suffixes; for rates below one a second. Two times
    /// with a comma between them are those of reads and of writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_interval: Option<AxisValue>,
    /// `linear`, or `poisson` for intervals from an exponential distribution.
    #[serde(default = "linear", skip_serializing_if = "is_linear")]
    pub rate_process: String,
    /// Time before the processes begin, with fio's suffixes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startdelay: Option<AxisValue>,
    /// Bytes between two requests in sequential order, as behind the colon of fio's `rw=read:8k`; negative to go
    /// backwards.
    #[serde(default, skip_serializing_if = "is_no_gap")]
    pub gap_bytes: i64,
    /// I/O priority class: 0 none, 1 real time, 2 best effort, 3 idle, as in `ioprio_set(2)`.
    #[serde(default, skip_serializing_if = "is_no_class")]
    pub prioclass: u8,
    /// Level in the class, 0 to 7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prio: Option<u8>,
    /// Percent of reads and of writes with a priority of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cmdprio_percentage: Option<[u32; 2]>,
    /// Class of these.
    #[serde(default, skip_serializing_if = "is_no_class")]
    pub cmdprio_class: u8,
    /// Level of these.
    #[serde(default, skip_serializing_if = "is_no_class")]
    pub cmdprio: u8,
    /// Priorities by size: `SIZE/PERCENT/CLASS/LEVEL`, with colons between them, reads and writes with a comma.
    /// Class and level may be left out; then they are `cmdprio_class` and `cmdprio`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cmdprio_bssplit: String,
    /// How places are drawn: `uniform`, `zipf:theta`, `pareto:h`, or `zoned:REQUESTS/BYTES:...` in percent.
    #[serde(default = "uniform")]
    pub random_distribution: String,
    /// Writes between two calls of `fsync`; 0 for none.
    #[serde(default)]
    pub fsync: u64,
    /// The same by calls of `fdatasync`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fdatasync: u64,
    /// The latency of a write that is followed by a sync holds the time of the sync.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub latency_includes_sync: bool,
    /// `free` for the bytes left free, `filled` for those before them, `all`.
    #[serde(default = "free")]
    pub region: String,
    /// Bytes from the begin of the region to the job's own part of it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset_bytes: u64,
    /// Length of that part; 0 for the rest of the region, which jobs with files of their own share.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub size_bytes: u64,
    /// Each process has a part of the region of its own, as fio's jobs have files of their own.
    #[serde(default = "yes")]
    pub private: bool,
}

fn linear() -> String {
    "linear".to_owned()
}

fn is_linear(word: &str) -> bool {
    word == "linear"
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
const fn is_no_gap(bytes: &i64) -> bool {
    *bytes == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
const fn is_no_class(number: &u8) -> bool {
    *number == 0
}

const fn whole() -> f64 {
    100.0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_whole(percent: &f64) -> bool {
    (*percent - 100.0).abs() < f64::EPSILON
}

const fn all_of_them() -> u32 {
    100
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
const fn is_all_of_them(percent: &u32) -> bool {
    *percent == 100
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
const fn is_one(number: &u32) -> bool {
    *number == 1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
const fn is_nothing(number: &u32) -> bool {
    *number == 0
}

const fn half() -> u32 {
    50
}

const fn zero() -> AxisValue {
    AxisValue::Number(0)
}

const fn ten() -> u32 {
    10
}

const fn one() -> u32 {
    1
}

const fn yes() -> bool {
    true
}

fn uniform() -> String {
    "uniform".to_owned()
}

fn free() -> String {
    "free".to_owned()
}

/// A name on the scheduler axis that stands for a scheduler with settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulerVariant {
    /// Name in the table of schedulers.
    pub scheduler: String,
    /// Tunables of the scheduler.
    #[serde(default)]
    pub set: BTreeMap<String, SettingValue>,
}

/// A name on the mechanism axis: what is switched off or changed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mechanism {
    /// Keys of the device, by their dotted names.
    #[serde(default)]
    pub device: BTreeMap<String, SettingValue>,
    /// Tunables, for the schedulers that have them.
    #[serde(default)]
    pub scheduler: BTreeMap<String, SettingValue>,
}

/// More runs, beside the product of the axes: the product with some axes replaced.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraRuns {
    /// Axes that are replaced, and their values.
    #[serde(deserialize_with = "read_axes")]
    pub axes: BTreeMap<String, Vec<AxisValue>>,
    /// Runs of each combination, if not as many as elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u32>,
    /// Left out of the short form.
    #[serde(default)]
    pub full_only: bool,
}

/// How the short form differs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuickForm {
    /// Axes that are replaced, and their values.
    #[serde(default, deserialize_with = "read_axes")]
    pub axes: BTreeMap<String, Vec<AxisValue>>,
    /// Runs of each combination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u32>,
    /// Requests of each process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
}

/// Runs whose every request and cleaning pass is kept, for a figure over time: the first repeat of
/// the combinations that have these values.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    /// The table of requests has where each went and how long it is, and there is a table of processes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub places: bool,
    /// Simulated seconds from the start that are kept.
    #[serde(default = "ten")]
    pub seconds: u32,
    /// Axis to permitted values; an axis that is not named is not looked at.
    #[serde(deserialize_with = "read_axes")]
    pub axes: BTreeMap<String, Vec<AxisValue>>,
}
