"""Every key of fio 3.33, and what becomes of it here: honoured, ignored with a note, or refused.

Names and synonyms are those of fio's own help. docs/fio.md is made from this table.
"""

from dataclasses import dataclass
from typing import Literal

from nandlab.fio_jobs.job_file import Given
from nandlab.suggest import did_you_mean

Verdict = Literal["honoured", "ignored", "refused"]


@dataclass(frozen=True)
class Option:
    """A key: its synonyms, what it does in fio, and what becomes of it."""

    name: str
    verdict: Verdict
    does: str
    """What it does in fio, in a few words."""
    why: str = ""
    """Why it is ignored or refused; what is special where it is honoured."""
    synonyms: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()
    """Values of a refused key that ask for nothing: they are taken."""


def _honoured(does: str, names: str, why: str = "") -> tuple[Option, ...]:
    return _rows("honoured", does, names, why)


def _ignored(does: str, names: str, why: str) -> tuple[Option, ...]:
    return _rows("ignored", does, names, why)


def _refused(does: str, names: str, why: str, harmless: str = "") -> tuple[Option, ...]:
    return _rows("refused", does, names, why, tuple(harmless.split()))


def _rows(
    verdict: Verdict, does: str, names: str, why: str, harmless: tuple[str, ...] = ()
) -> tuple[Option, ...]:
    """A row for each of `names`; synonyms of a name stand after it, with = between them."""
    split = (name.split("=") for name in names.split())
    return tuple(
        Option(name, verdict, does, why, tuple(synonyms), harmless) for name, *synonyms in split
    )


_DATA = "a simulated device does not look at what is written"
_PLACE = "the engine has its own places for files"
_HOST = "the host is that of the simulation"
_NO_TRACE = "traces are replayed by `nandlab replay --device`"
_NO_VERIFY = "the simulated device keeps no data from run to run"
_NO_ZONES = "the devices have no zones"
_NO_BYTES = "requests of a block device are whole sectors"
_NO_ORDER = "the engine's jobs draw places, or go forward or backward"

OPTIONS: tuple[Option, ...] = tuple(
    sorted(
        (
            # What the engine carries out.
            *_honoured(
                "order and direction of requests",
                "rw=readwrite",
                "a modifier, such as read:8k or read:-8k, with sequential order only",
            ),
            *_honoured("size of a request", "bs=blocksize", "whole sectors of 512"),
            *_honoured("range of sizes", "bsrange=blocksize_range", "whole sectors of 512"),
            *_honoured("sizes and their shares", "bssplit", "whole sectors of 512"),
            *_honoured("grid of random places", "ba=blockalign", "whole sectors of 512"),
            *_honoured(
                "random blocks may repeat",
                "norandommap",
                "without it a pass touches each block once; places may repeat where reads and "
                "writes have other smallest sizes",
            ),
            *_honoured("share of random places in percent", "percentage_random", "one number"),
            *_honoured("share of reads in percent", "rwmixread"),
            *_honoured("share of writes in percent", "rwmixwrite"),
            *_honoured(
                "interface to the kernel",
                "ioengine",
                "sync, psync, vsync, pvsync, pvsync2 have "
                "one request under way; libaio, io_uring and posixaio have iodepth",
            ),
            *_honoured(
                "requests under way", "iodepth", "with direct=1; buffered requests go one by one"
            ),
            *_honoured("past the page cache", "direct"),
            *_honoured("through the page cache", "buffered"),
            *_honoured("O_SYNC or O_DSYNC", "sync", "with direct=1 as fdatasync within each write"),
            *_honoured("bytes of the file", "size", "a percentage of a block device"),
            *_honoured("bytes of the file", "filesize", "where size is missing"),
            *_honoured("bytes moved by the job", "io_size=io_limit"),
            *_honoured("write until no space is left", "fill_device=fill_fs"),
            *_honoured("passes", "loops"),
            *_honoured("requests of the job", "number_ios"),
            *_honoured("processes", "numjobs"),
            *_honoured("longest time", "runtime=timeout"),
            *_honoured("run until the time is over", "time_based"),
            *_honoured("time before anything is counted", "ramp_time"),
            *_honoured("pause after a request", "thinktime", "with one request under way"),
            *_honoured(
                "bytes a second", "rate", "requests of one size; of mixed jobs each direction"
            ),
            *_honoured("requests a second", "rate_iops", "of mixed jobs each direction"),
            *_honoured(
                "how places are drawn",
                "random_distribution",
                "random, zipf, pareto, zoned with up to 16 parts",
            ),
            *_honoured("times of requests at a rate", "rate_process", "linear or poisson"),
            *_honoured("wait before the start", "startdelay", "one time, no range"),
            *_honoured("priority of requests", "prio prioclass"),
            *_honoured(
                "priority of some requests",
                "cmdprio_percentage cmdprio_class cmdprio cmdprio_bssplit",
            ),
            *_honoured("fsync after so many writes", "fsync", "one request under way, no rate"),
            *_honoured("fdatasync after so many writes", "fdatasync", "as fsync"),
            *_honoured(
                "file or device",
                "filename",
                "equal names are one file; a name in /dev is the device",
            ),
            *_honoured(
                "wait for earlier jobs",
                "stonewall=wait_for_previous",
                "on the device as the jobs before left it",
            ),
            *_honoured("wait for a job", "wait_for", "if it is the group before; as stonewall"),
            *_honoured("where the file begins", "offset=fileoffset", "bytes or a percentage"),
            *_honoured("offset from job to job", "offset_increment", "bytes or a percentage"),
            *_honoured("end of other jobs with one", "exitall exit_what"),
            *_honoured("ratio of requests between jobs", "flow flow_id flow_sleep", "no rate"),
            *_honoured(
                "reads of what was written",
                "verify do_verify verify_backlog verify_backlog_batch",
                "the reads are made as in fio; contents are not compared, because the simulated "
                "device keeps none",
            ),
            *_honoured(
                "parts of the file, one after the other",
                "zonemode zonesize zonerange zoneskip",
                "strided; uniform places",
            ),
            *_honoured(
                "end at a steady state",
                "steadystate=ss steadystate_duration=ss_dur steadystate_ramp_time=ss_ramp",
                "iops, bw and their slopes; no ramp_time",
            ),
            *_honoured(
                "largest depth that keeps a latency",
                "latency_target latency_window latency_percentile latency_run",
                "no rate, pause, ramp_time or verify",
            ),
            *_honoured("begin a reporting group", "new_group"),
            *_honoured("one report for a group", "group_reporting"),
            *_honoured("name of the job", "name"),
            *_honoured("text for the report", "description"),
            *_honoured("meaning of suffixes", "kb_base"),
            *_honoured("percentiles of clat", "clat_percentiles"),
            *_honoured("percentiles of lat", "lat_percentiles"),
            *_honoured("percentiles of slat", "slat_percentiles", "slat is 0 here"),
            *_honoured("which percentiles", "percentile_list"),
            *_honoured("log of latencies", "write_lat_log", "with --logs FOLDER"),
            *_honoured("log of bandwidth", "write_bw_log", "with --logs FOLDER"),
            *_honoured("log of IOPS", "write_iops_log", "with --logs FOLDER"),
            *_honoured("log of requests", "write_iolog", "with --logs FOLDER; version 2"),
            *_honoured("places in the logs", "log_offset"),
            *_honoured("mean of a log over a time", "log_avg_msec"),
            *_honoured("greatest value instead of the mean", "log_max_value"),
            # What changes nothing in a simulation.
            *_ignored(
                "threads instead of processes", "thread=threads", "both are tasks of the engine"
            ),
            *_ignored(
                "random numbers",
                "random_generator randrepeat allrandrepeat randseed",
                "the engine draws from --seed; places may repeat",
            ),
            *_ignored(
                "submission by a thread of its own",
                "io_submit_mode",
                "requests with a rate are issued by the clock",
            ),
            *_ignored(
                "contents of buffers",
                "zero_buffers refill_buffers scramble_buffers "
                "buffer_pattern buffer_compress_percentage buffer_compress_chunk "
                "dedupe_percentage dedupe_mode dedupe_working_set_percentage dedupe_global",
                _DATA,
            ),
            *_ignored(
                "how what was read is checked",
                "verify_async verify_dump verify_fatal verify_interval verify_offset "
                "verify_pattern",
                "the reads are made, and contents are not compared",
            ),
            *_ignored("folder and names of files", "directory filename_format", _PLACE),
            *_ignored(
                "how files are made and removed",
                "fallocate create_serialize create_fsync "
                "create_on_open allow_file_create allow_mounted_write overwrite unlink "
                "unlink_each_loop openfiles file_service_type unique_filename lockfile",
                "files are there and written before the jobs begin",
            ),
            *_ignored(
                "hints to the kernel",
                "fadvise_hint write_hint invalidate",
                "the page cache is empty at the start, and the device takes no hints",
            ),
            *_ignored(
                "processors and memory of the host",
                "cpus_allowed cpumask cpus_allowed_policy "
                "numa_cpu_nodes numa_mem_policy nice mem=iomem hugepage-size lockmem uid gid "
                "cgroup cgroup_weight cgroup_nodelete",
                _HOST,
            ),
            *_ignored(
                "clocks and what is measured",
                "clocksource gtod_cpu gtod_reduce disable_lat "
                "disable_clat disable_slat disable_bw_measurement=disable_bw bwavgtime "
                "iopsavgtime stats",
                "simulated time costs nothing, and all is measured",
            ),
            *_ignored(
                "form of the report",
                "disk_util unit_base significant_figures error_dump "
                "per_job_logs log_entries log_compression log_compression_cpus "
                "log_store_compressed log_unix_epoch log_alternate_epoch "
                "log_alternate_epoch_clock_id log_prio block_error_percentiles",
                "the report has its usual form",
            ),
            *_ignored(
                "what becomes of errors",
                "continue_on_error ignore_error exitall_on_error max_latency",
                "the simulated device gives no errors to jobs",
            ),
            *_ignored(
                "a sync at the end", "end_fsync fsync_on_close", "it follows all that is measured"
            ),
            *_ignored(
                "least rate before the job fails",
                "rate_min=ratemin rate_iops_min rate_cycle=ratecycle",
                "a job is measured to its end",
            ),
            *_ignored(
                "pause that keeps the processor busy",
                "thinktime_spin",
                "a process has a processor to itself while it pauses",
            ),
            *_ignored(
                "requests submitted or taken at a time",
                "iodepth_batch=iodepth_batch_submit "
                "iodepth_batch_complete_min=iodepth_batch_complete iodepth_batch_complete_max "
                "iodepth_low",
                "each is submitted, and taken, by itself",
            ),
            *_ignored(
                "how libaio and io_uring reach the kernel",
                "userspace_reap hipri fixedbufs "
                "registerfiles sqthread_poll sqthread_poll_cpu nonvectored uncached nowait",
                "calls of the host take the time that the board says",
            ),
            # What would change the result, and cannot be carried out.
            *_refused("commands of a shell", "exec_prerun exec_postrun", "none is run"),
            *_refused(
                "sizes of no whole sector", "bs_unaligned=blocksize_unaligned", _NO_BYTES, "0"
            ),
            *_refused("order of places", "rw_sequencer", _NO_ORDER, "sequential 0"),
            *_refused("grid of an offset", "offset_align", _PLACE, "0"),
            *_refused("files of a job", "nrfiles=nr_files", _PLACE, "1"),
            *_refused("files of a folder", "opendir", _PLACE),
            *_refused("write at the end of the file", "file_append", _PLACE, "0"),
            *_refused(
                "requests between pauses",
                "thinktime_blocks",
                "the engine pauses after each request",
                "1",
            ),
            *_refused(
                "requests between pauses",
                "thinktime_blocks_type thinktime_iotime",
                "the engine pauses after each request",
                "complete 0",
            ),
            *_refused(
                "rate in spite of pauses",
                "rate_ignore_thinktime",
                "the engine has a rate or a pause",
                "0",
            ),
            *_refused(
                "overlapping requests one by one",
                "serialize_overlap",
                "the engine issues them at once",
                "0",
            ),
            *_refused("order of writes by the device", "write_barrier", "it needs a file", "0"),
            *_refused("sync of a range", "sync_file_range", "the engine has no such call", "0"),
            *_refused("atomic writes", "atomic", "the engine has none", "0"),
            *_refused("read the file first", "pre_read", "the engine does not", "0"),
            *_refused("make files only", "create_only", "there is nothing to measure", "0"),
            *_refused(
                "checks of another run's data",
                "verify_only verify_state_load verify_state_save experimental_verify",
                _NO_VERIFY,
                "0",
            ),
            *_refused(
                "trims among writes",
                "trim_percentage trim_backlog trim_backlog_batch trim_verify_zero",
                "the engine's jobs do not trim",
                "0",
            ),
            *_refused(
                "trace of requests",
                "read_iolog read_iolog_chunked merge_blktrace_file "
                "merge_blktrace_scalars merge_blktrace_iters replay_no_stall replay_redirect "
                "replay_scale replay_align replay_time_scale replay_skip",
                _NO_TRACE,
                "0",
            ),
            *_refused(
                "log of histograms",
                "write_hist_log log_hist_msec log_hist_coarseness",
                "take the bins of --output-format json+",
                "0",
            ),
            *_refused(
                "zones of a device",
                "zonecapacity read_beyond_wp max_open_zones job_max_open_zones ignore_zone_limits "
                "zone_reset_threshold zone_reset_frequency",
                _NO_ZONES,
                "none 0",
            ),
            *_refused("scheduler of the device", "ioscheduler", "name it with --scheduler"),
            *_refused(
                "one report for all directions",
                "unified_rw_reporting",
                "the report has each direction",
                "0 none",
            ),
            *_refused("a whole workload", "profile", "write its options"),
        ),
        key=lambda option: option.name,
    )
)
"""All keys, sorted by name."""

BY_NAME: dict[str, Option] = {
    name: option for option in OPTIONS for name in (option.name, *option.synonyms)
}
"""Rows by every name that fio takes for them."""


def option_of(given: Given) -> Option:
    """The row of a key.

    Raises `NandlabError` for a key that fio does not have, and for one that is refused.
    """
    option = BY_NAME.get(given.key)
    if option is None:
        near = did_you_mean(given.key, BY_NAME).removesuffix("? ")
        suggestion = f"{near}?" if near else "docs/fio.md lists the keys"
        raise given.fault("fio has no such key", suggestion)
    if option.verdict == "refused" and given.value not in option.harmless:
        taken = f" or write {given.key}={option.harmless[0]}" if option.harmless else ""
        raise given.fault(f"it cannot be simulated: {option.why}", f"take the line out{taken}")
    return option
