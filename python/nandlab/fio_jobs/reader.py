"""Values of the options of a section, each checked by itself."""

import math
from dataclasses import dataclass

from nandlab.fio_jobs.job_file import Given, Section
from nandlab.fio_jobs.sizes import sizes_of
from nandlab.fio_jobs.values import by_direction, bytes_of, count_of, flag_of, time_ns_of
from nandlab.suggest import did_you_mean

_PATTERNS = ("randread", "randrw", "randwrite", "read", "readwrite", "rw", "write")
_CHECKS = (
    *("crc16", "crc32", "crc32c", "crc64", "crc7", "md5", "meta", "null", "pattern", "sha1"),
    *("sha256", "sha3", "sha512", "xxhash"),
)
"""Values of `verify`, without what stands behind a stroke: all are reads of what was written."""

_TIME_MAX_NS = 86_400_000_000_000
"""A day, the longest time of the engine's jobs (TIME_MAX_S of crates/lab/jobs/src/job.rs)."""

_ZONES_MAX = 16
"""Parts of a zoned file (ZONES_MAX of crates/lab/jobs/src/addresses.rs)."""

_USUAL = {"zipf": "1.1", "pareto": "0.2"}
"""fio's numbers where a distribution stands alone (DEF_ZIPF and DEF_PARETO of options.c)."""


@dataclass(frozen=True)
class LatencyTarget:
    """A latency that a job keeps by the number of its requests under way."""

    target_us: int
    window_us: int
    percentile: float
    goes_on: bool


@dataclass(frozen=True)
class Reader:
    """Reads the values of a section."""

    section: Section
    options: dict[str, Given]

    @property
    def kb_base(self) -> int:
        """Bytes of k: 1024, or 1000."""
        return int(self.choice("kb_base", ("1000", "1024"), "1024"))

    def choice(self, name: str, known: tuple[str, ...], otherwise: str) -> str:
        """One of a few words."""
        given = self.options.get(name)
        if given is None:
            return otherwise
        value = given.value or ""
        if value not in known:
            if value.strip() in known:
                raise given.fault(
                    "fio takes no blank before a word", f"write {given.key}={value.strip()}"
                )
            near = did_you_mean(value, known).removesuffix("? ")
            suggestion = f"{near}?" if near else "choose one of these"
            raise given.fault(f"it must be one of {', '.join(known)}", suggestion)
        return value

    def flag(self, name: str, *, otherwise: bool = False) -> bool:
        """A flag, and what it is if it is missing."""
        return flag_of(self.options[name]) if name in self.options else otherwise

    def count(self, name: str, otherwise: int, *, least: int = 0, most: int = (1 << 32) - 1) -> int:
        """A whole number."""
        given = self.options.get(name)
        return (
            otherwise
            if given is None
            else count_of(given, given.value or "", least=least, most=most)
        )

    def time_ns(self, name: str, *, bare: str = "s") -> int:
        """A time; 0 if it is missing."""
        given = self.options.get(name)
        if given is None:
            return 0
        time_ns = time_ns_of(given, given.value or "", bare=bare)
        if time_ns > _TIME_MAX_NS:
            raise given.fault("it is longer than a day", "write 24h at most")
        return time_ns

    def pattern(self) -> str:
        """`rw` as the engine has it; fio reads if nothing is said."""
        given = self.options.get("rw")
        if given is None:
            return "read"
        value = given.value or ""
        head, colon, _ = value.partition(":")
        if colon and head in _PATTERNS:
            if head.startswith("rand"):
                reason = "a number of requests from one place on cannot be simulated"
                raise given.fault(reason, f"write rw={head}")
            return "rw" if head == "readwrite" else head
        if value in ("trim", "randtrim", "trimwrite", "randtrimwrite"):
            raise given.fault("the engine's jobs do not trim", "choose another pattern")
        rw = self.choice("rw", _PATTERNS, "read")
        return "rw" if rw == "readwrite" else rw

    def gap_bytes(self, rw: str) -> int:
        """Bytes that sequential requests leave out, or go back, from the modifier of `rw`."""
        given = self.options.get("rw")
        head, colon, text = (given.value or "").partition(":") if given else ("", "", "")
        if given is None or not colon or rw.startswith("rand"):
            return 0
        size = bytes_of(given, text.removeprefix("-"), self.kb_base)
        if size % 512:
            raise given.fault("the modifier must be whole sectors of 512", f"write rw={head}:8k")
        return -size if text.startswith("-") else size

    def urgent(self) -> tuple[int, int, int, int] | None:
        """`cmdprio_percentage` by direction, with class (real time if not given) and level."""
        given = self.options.get("cmdprio_percentage")
        if given is None:
            return None
        read, write, _ = by_direction(given.value or "")
        shares = [count_of(given, text, most=100) for text in (read, write)]
        # IOPRIO_CLASS_RT where none is named (fio's HOWTO, cmdprio_class).
        own = self.count("cmdprio_class", 1, least=1, most=3)
        return shares[0], shares[1], own, self.count("cmdprio", 0, most=7)

    def read_percent(self) -> int:
        """The share of reads in mixed jobs: `rwmixwrite` gives the rest."""
        if "rwmixwrite" in self.options and "rwmixread" not in self.options:
            return 100 - self.count("rwmixwrite", 50, most=100)
        return self.count("rwmixread", 50, most=100)

    def is_direct(self) -> bool:
        """`direct`, or the contrary of `buffered`; the later of the two wins."""
        is_direct = False
        for name, given in self.options.items():
            if name in ("direct", "buffered"):
                if given.value is None:
                    raise given.fault("it has no value", f"write {name}=1")
                is_direct = flag_of(given) is (name == "direct")
        return is_direct

    def synced(self) -> bool:
        """True if each write is durable when it returns."""
        return self.choice("sync", ("0", "1", "none", "sync", "dsync"), "0") not in ("0", "none")

    def grid(self) -> str:
        """`blockalign` in the engine's words; empty for the smallest sizes."""
        given = self.options.get("ba")
        if given is None:
            return ""
        sizes = [bytes_of(given, part, self.kb_base) for part in by_direction(given.value or "")]
        if any(size == 0 or size % 512 for size in sizes[:2]):
            raise given.fault("it must be whole sectors of 512", "write blockalign=4k, for example")
        return ",".join(str(size) for size in sizes[:2])

    def random_percent(self, rw: str) -> int:
        """`percentage_random`, which must be the same for the directions of the job."""
        given = self.options.get("percentage_random")
        if given is None:
            return 100
        read, write, _ = by_direction(given.value or "")
        used = [read] * (rw not in ("write", "randwrite"))
        used += [write] * (rw not in ("read", "randread"))
        if len(set(used)) > 1:
            raise given.fault("the engine has one share for reads and writes", "name one number")
        return count_of(given, used[0], most=100)

    def strides(self) -> dict[str, int]:
        """`zonesize`, `zonerange` and `zoneskip` of `zonemode=strided`."""
        mode = self.choice("zonemode", ("none", "strided", "zbd"), "none")
        given = self.options.get("zonemode")
        if mode == "zbd":
            assert given is not None
            raise given.fault("the devices have no zones", "write zonemode=strided or none")
        found = {}
        for name in ("zonesize", "zonerange", "zoneskip"):
            one = self.options.get(name)
            if one is None:
                continue
            size = bytes_of(one, one.value or "", self.kb_base)
            if mode == "none" and size:
                # fio's `fixup_options`: a size of zones without a mode means strided.
                mode = "strided"
            if size % 512:
                raise one.fault("it must be whole sectors of 512", f"write {name}=256m")
            found[name] = size
        if mode == "none":
            return {}
        if not found.get("zonesize"):
            fault = given or self.options["zoneskip" if "zoneskip" in self.options else "zonerange"]
            raise fault.fault("zones need a zonesize", "add zonesize=256m, for example")
        return found

    def latency_target(self) -> LatencyTarget | None:
        """`latency_target` with its window and percentile."""
        given = self.options.get("latency_target")
        target_us = self.time_ns("latency_target", bare="us") // 1000
        if given is None or target_us == 0:
            return None
        window_us = self.time_ns("latency_window", bare="us") // 1000
        if window_us == 0:
            raise given.fault("it needs a window", "add latency_window=5s, for example")
        try:
            percent = float(self.options["latency_percentile"].value or "")
        except KeyError:
            percent = 100.0
        except ValueError:
            percent = 0.0
        if not 0.0001 <= percent <= 100:
            fault = self.options["latency_percentile"]
            raise fault.fault("it must be above 0, to 100", "write latency_percentile=99.9")
        return LatencyTarget(target_us, window_us, percent, self.flag("latency_run"))

    def ends(self) -> str | None:
        """Which jobs end with this one, where the file has `exitall`."""
        return self.choice("exit_what", ("all", "group", "stonewall"), "group")

    def verify(self) -> dict[str, int] | None:
        """`verify_backlog` and `verify_backlog_batch` of a job that reads again what it wrote."""
        given = self.options.get("verify")
        kind = (given.value or "") if given else "0"
        kind = kind.partition("-")[0]
        if kind in ("0", "none") or not self.flag("do_verify", otherwise=True):
            return None
        if kind not in _CHECKS:
            assert given is not None
            near = did_you_mean(kind, _CHECKS).removesuffix("? ")
            raise given.fault(
                "fio has no such check", f"{near}?" if near else "write verify=crc32c"
            )
        return {name: self.count(name, 0) for name in ("verify_backlog", "verify_backlog_batch")}

    def rate(self, rw: str) -> tuple[int | None, str]:
        """Requests a second of each process, or the time between them; both for no rate."""
        given = self.options.get("rate_iops") or self.options.get("rate")
        if given is None:
            return None, ""
        sizes = sizes_of(self.options, rw, self.kb_base)
        if given.key != "rate_iops" and not sizes.is_one:
            reason = "with requests of several sizes the engine has a rate of requests"
            raise given.fault(reason, "write rate_iops")
        unit = 1 if given.key == "rate_iops" else sizes.least
        read, write, _ = by_direction(given.value or "")
        if rw in ("rw", "randrw"):
            if not (read and write):
                reason = "the engine has a rate of both directions, or of none"
                raise given.fault(reason, "write rate_iops=100,100, for example")
            intervals = [self.interval_us(given, text, unit) for text in (read, write)]
            return None, ",".join(f"{interval}us" for interval in intervals)
        text = read if rw in ("read", "randread") else write
        if not text:
            return None, ""
        rate = bytes_of(given, text, self.kb_base)
        if rate and rate % unit == 0 and rate // unit <= 10**9:
            return rate // unit, ""
        return None, f"{self.interval_us(given, text, unit)}us"

    def interval_us(self, given: Given, text: str, unit: int) -> int:
        """Microseconds from one request to the next, at so many of `unit` a second."""
        rate = bytes_of(given, text, self.kb_base)
        if not rate or rate // unit > 10**9:
            reason = "it must be above 0, and at most 10^9 requests a second"
            raise given.fault(reason, "write rate_iops=1000, for example")
        interval_us = round(unit * 1_000_000 / rate)
        if not 1 <= interval_us * 1_000 <= _TIME_MAX_NS:
            raise given.fault("a request must come each microsecond to each day", "write rate_iops")
        return interval_us

    def distribution(self) -> str:
        """`random_distribution` in the engine's words."""
        given = self.options.get("random_distribution")
        if given is None or given.value == "random":
            return "uniform"
        kind, _, text = (given.value or "").partition(":")
        if kind == "zoned":
            return self.zones(given, text)
        if kind not in ("zipf", "pareto"):
            reason = "it cannot be simulated: the engine has uniform, zipf, pareto and zoned"
            raise given.fault(reason, "write random or zipf:0.9, for example")
        try:
            # A second number is the center, which only shifts all places.
            number = float(text.partition(":")[0] or _USUAL[kind])
        except ValueError:
            number = 0.0
        if kind == "zipf" and not (number > 0 and math.isfinite(number) and number != 1):
            raise given.fault("theta must be above 0, and not 1", "write zipf:0.9, for example")
        if kind == "pareto" and not 0 < number < 1:
            raise given.fault("it must lie between 0 and 1", "write pareto:0.2, for example")
        return f"{kind}:{number!r}"

    @staticmethod
    def zones(given: Given, text: str) -> str:
        """Shares of requests and of the file; a size that is left out is what the others leave."""
        pairs = [part.partition("/") for part in text.split(":")]
        numbers = [number for requests, _, size in pairs for number in (requests, size or "0")]
        sums_to_all = all(number.isdecimal() for number in numbers) and (
            sum(int(requests) for requests, *_ in pairs) == 100
        )
        if not sums_to_all or len(pairs) > _ZONES_MAX:
            reason = f"it needs up to {_ZONES_MAX} pairs REQUESTS/SIZE in percent, 100 together"
            raise given.fault(reason, "write zoned:60/10:40/90, for example")
        return f"zoned:{text}"
