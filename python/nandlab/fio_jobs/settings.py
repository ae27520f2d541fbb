"""From the options of a section to what its job does."""

from dataclasses import dataclass

from nandlab.fio_jobs.job_file import Given, Section
from nandlab.fio_jobs.options import option_of
from nandlab.fio_jobs.reader import LatencyTarget, Reader
from nandlab.fio_jobs.sizes import Sizes, sizes_of
from nandlab.fio_jobs.steady import Wanted, wanted_of
from nandlab.fio_jobs.values import count_of, flag_of

_ONE_BY_ONE = ("psync", "pvsync", "pvsync2", "sync", "vsync")
_ASYNCHRONOUS = ("io_uring", "libaio", "posixaio")
_NUMJOBS_MAX = 4096
"""fio stops at as many jobs (REAL_MAX_JOBS)."""

_DEPTH_MAX = 65_536


@dataclass(frozen=True)
class Settings:
    """What a job does, in the units of the engine; times in nanoseconds."""

    section: Section
    options: dict[str, Given]
    rw: str
    read_percent: int
    sizes: Sizes
    blockalign: str
    random_percent: int
    has_map: bool
    """A random pass touches each block once."""
    strides: dict[str, int]
    verify: dict[str, int] | None
    exit_what: str | None
    flow: int
    steady: Wanted | None
    latency: LatencyTarget | None
    engine: str
    iodepth: int
    mode: str
    size: str | None
    """`size`, or `filesize` where it is missing, as the file has it."""
    kb_base: int
    processes: int
    files: str
    """`filename`, or empty if each process has a file of its own."""
    runtime_ns: int
    is_time_based: bool
    ramp_ns: int
    thinktime_us: int
    rate_iops: int | None
    rate_interval: str
    """Time between requests where the rate is no whole number of them a second, or where reads and
    writes have their own, in the engine's words."""
    is_poisson: bool
    startdelay_ns: int
    gap_bytes: int
    """Between two requests in sequential order, from the modifier of `rw`."""
    priority: dict[str, int]
    """`prioclass` and `prio`, as far as they are given."""
    urgent: tuple[int, int, int, int] | None
    """Percent of reads and writes that have a priority of their own, its class and level."""
    fsync: int
    fdatasync: int
    is_each_write_synced: bool
    distribution: str
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the job: `name`, or that of its section."""
        given = self.options.get("name")
        return given.value or self.section.name if given else self.section.name

    @property
    def is_read(self) -> bool:
        """True if it reads, alone or among writes."""
        return self.rw not in ("write", "randwrite")

    @property
    def is_written(self) -> bool:
        """True if it writes, alone or among reads."""
        return self.rw not in ("read", "randread")

    @property
    def has_rate(self) -> bool:
        """True if the clock issues its requests."""
        return self.rate_iops is not None or bool(self.rate_interval)

    @property
    def is_asynchronous(self) -> bool:
        """True if its engine of fio submits requests and takes them later."""
        return self.engine in _ASYNCHRONOUS

    def flag(self, name: str, *, otherwise: bool = False) -> bool:
        """A flag of the job."""
        return flag_of(self.options[name]) if name in self.options else otherwise

    def count(self, name: str, otherwise: int) -> int:
        """A whole number of the job."""
        given = self.options.get(name)
        return count_of(given, given.value or "") if given else otherwise

    def fault_at(self, name: str, reason: str, suggestion: str) -> Exception:
        """The error that a key of this job is wrong, at its line or at that of the section."""
        section = self.section
        given = self.options.get(name) or Given(name, None, section.file, section.line)
        return given.fault(reason, suggestion)


def settings_of(section: Section) -> Settings:
    """What a section asks for.

    Raises `NandlabError` with file, line and key for what is unknown, wrong or refused.
    """
    options, notes = _checked(section)
    reader = Reader(section, options)
    rw = reader.pattern()
    engine = reader.choice("ioengine", (*_ONE_BY_ONE, *_ASYNCHRONOUS), "psync")
    is_direct = reader.is_direct()
    is_synced = reader.synced()
    depth = reader.count("iodepth", 1, least=1, most=_DEPTH_MAX)
    if depth > 1 and (engine in _ONE_BY_ONE or not is_direct):
        why = f"ioengine={engine}" if engine in _ONE_BY_ONE else "the page cache"
        notes = (*notes, f"iodepth={depth}: with {why} one request is under way, as on Linux")
        depth = 1
    rate_iops, interval = reader.rate(rw)
    sizes = sizes_of(options, rw, reader.kb_base)
    blockalign = reader.grid()
    distribution = reader.distribution()
    # `init_random_map` of fio's filesetup.c; a map needs one unit here.
    wants_map = rw.startswith("rand") and not reader.flag("norandommap")
    wants_map &= distribution.partition(":")[0] in ("uniform", "zoned")
    has_map = wants_map and sizes.has_one_unit
    has_map &= not blockalign or set(blockalign.split(",")) == {str(sizes.least)}
    if wants_map and not has_map:
        notes = (*notes, "random places may repeat: reads and writes have other smallest sizes")
    mode = "direct" if is_direct else "sync" if is_synced else "buffered"
    size = options.get("size") or options.get("filesize")
    found = Settings(
        section=section,
        options=options,
        rw=rw,
        read_percent=reader.read_percent(),
        sizes=sizes,
        blockalign=blockalign,
        random_percent=reader.random_percent(rw),
        has_map=has_map,
        strides=reader.strides(),
        verify=reader.verify() if rw not in ("read", "randread") else None,
        exit_what=reader.ends(),
        flow=reader.count("flow", 0),
        steady=wanted_of(options, reader.kb_base),
        latency=reader.latency_target(),
        engine=engine,
        iodepth=depth,
        mode=mode,
        size=size.value if size else None,
        kb_base=reader.kb_base,
        processes=reader.count("numjobs", 1, least=1, most=_NUMJOBS_MAX),
        files=(options["filename"].value or "") if "filename" in options else "",
        runtime_ns=reader.time_ns("runtime"),
        is_time_based=reader.flag("time_based"),
        ramp_ns=reader.time_ns("ramp_time"),
        thinktime_us=reader.time_ns("thinktime", bare="us") // 1000,
        rate_iops=rate_iops,
        rate_interval=interval,
        is_poisson=reader.choice("rate_process", ("linear", "poisson"), "linear") == "poisson",
        startdelay_ns=reader.time_ns("startdelay"),
        gap_bytes=reader.gap_bytes(rw),
        priority={
            name: reader.count(name, 0, most=most)
            for name, most in (("prioclass", 3), ("prio", 7))
            if name in options
        },
        urgent=reader.urgent(),
        fsync=reader.count("fsync", 0),
        fdatasync=reader.count("fdatasync", 0),
        is_each_write_synced=is_direct and is_synced and rw not in ("read", "randread"),
        distribution=distribution,
        notes=notes,
    )
    _check_together(found)
    return found


def _checked(section: Section) -> tuple[dict[str, Given], tuple[str, ...]]:
    """The last line of each key, and notes on those that are ignored."""
    options: dict[str, Given] = {}
    notes: dict[str, str] = {}
    for given in (*section.inherited, *section.own):
        option = option_of(given)
        # The last line of a key wins, and it goes to the end as in fio's own list.
        options.pop(option.name, None)
        options[option.name] = given
        if option.verdict == "ignored":
            notes[option.name] = f"{given.key} is ignored: {option.why}"
    return options, tuple(notes.values())


def _check_together(job: Settings) -> None:
    """Raises for keys of a job that the engine cannot carry out together."""
    name = "fsync" if job.fsync else "fdatasync"
    if job.fsync or job.fdatasync:
        if job.fsync and job.fdatasync:
            raise job.fault_at("fdatasync", "the engine has fsync or fdatasync", "name one of them")
        for other, is_there in (
            ("iodepth", job.iodepth > 1),
            ("rate_iops", job.has_rate),
            ("ramp_time", job.ramp_ns > 0),
            ("sync", job.is_each_write_synced),
        ):
            if is_there:
                reason = f"the engine does not measure it together with {other}"
                raise job.fault_at(name, reason, f"take {other} out")
    if job.is_each_write_synced and job.iodepth > 1:
        raise job.fault_at("sync", "the engine syncs one write at a time", "write iodepth=1")
    if job.thinktime_us and (job.iodepth > 1 or job.has_rate):
        other = "iodepth above 1" if job.iodepth > 1 else "a rate"
        raise job.fault_at("thinktime", f"the engine has no pause with {other}", "take one out")
    if job.is_poisson and not job.has_rate:
        raise job.fault_at("rate_process", "it needs a rate", "add rate_iops=100, for example")
    if job.verify is not None and job.is_time_based:
        raise job.fault_at(
            "verify", "the engine verifies whole passes", "write loops, not time_based"
        )
    if job.verify is not None and (job.fsync or job.fdatasync):
        raise job.fault_at("verify", "the engine has it without syncs", "take fsync out")
    if job.latency is not None:
        for name, is_there in (
            ("ramp_time", job.ramp_ns > 0),
            ("thinktime", job.thinktime_us > 0),
            ("rate_iops", job.has_rate),
            ("verify", job.verify is not None),
        ):
            if is_there:
                reason = f"the engine searches for a depth without {name}"
                raise job.fault_at("latency_target", reason, f"take {name} out")
    if job.steady is not None and job.ramp_ns:
        raise job.fault_at("ramp_time", "with steadystate the engine has ss_ramp", "write ss_ramp")
    if job.is_poisson and "," in job.rate_interval:
        raise job.fault_at("rate_process", "rates of both directions are linear", "take it out")
    if job.flow and job.has_rate:
        raise job.fault_at("flow", "the engine has a flow or a rate", "take one out")
    if job.strides and job.distribution != "uniform":
        raise job.fault_at("zonemode", "it needs uniform places", "take random_distribution out")
    if job.is_time_based and not job.runtime_ns:
        raise job.fault_at("time_based", "it needs a runtime", "add runtime=10s, for example")
    percentile_list(job)


def percentile_list(job: Settings) -> tuple[float, ...] | None:
    """`percentile_list`, sorted; none for fio's own.

    Raises `NandlabError` for what is no percentile.
    """
    given = job.options.get("percentile_list")
    if given is None:
        return None
    try:
        numbers = sorted(float(part) for part in (given.value or "").split(":"))
    except ValueError:
        numbers = [-1.0]
    # FIO_IO_U_LIST_MAX_LEN is 20.
    if not all(0 < number <= 100 for number in numbers) or len(numbers) > 20:
        raise given.fault("it must be up to 20 numbers above 0, to 100", "write 50:99, for example")
    return tuple(numbers)
