"""The runs of docs/slc-cache.md: a long write to a drive with an SLC cache, in four states.

One job of fio writes in order. Its log of bandwidth tells how many gigabytes were written when the
throughput fell, and how often it did.
"""

import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from generated_page import DOCS
from slc_cache_times import Times

import nandlab

DEVICES = DOCS.parent / "devices"
DEVICE = "nvme-ssd-tlc"
REQUEST_BYTES, DEPTH = 1 << 20, 32
LOG_MS = 10
"""A block of the cache is folded in about 0.12 s, and filled in 0.05 s."""


@dataclass(frozen=True)
class Case:
    """A drive before the job."""

    name: str
    precondition: str
    when_full: str
    written_mib: int


EMPTY = Case("empty", "none", "bypass", 30_000)
FILLED = Case("filled once", "fill", "bypass", 30_000)
OVERWRITTEN = Case("filled, then overwritten", "random:100", "bypass", 10_000)
FOLDING = Case("empty, folds", "none", "fold", 30_000)
CASES = (EMPTY, FILLED, OVERWRITTEN, FOLDING)


@dataclass(frozen=True)
class Run:
    """What the log of a job shows."""

    bytes_by_window: list[int]
    """Bytes written in each [`LOG_MS`] milliseconds, those without a request too."""

    longest_write_ns: int
    elapsed_ns: int

    @property
    def rates(self) -> list[float]:
        """MB/s of each window."""
        return [one / LOG_MS / 1e3 for one in self.bytes_by_window]

    @property
    def whole(self) -> int:
        """Windows that the job filled: the last one ends with the job."""
        return self.elapsed_ns // (LOG_MS * 1_000_000)

    def mean(self, first: int, last: int) -> float:
        """MB/s over the windows from `first` to `last`, which is no part of it."""
        return sum(self.bytes_by_window[first:last]) / ((last - first) * LOG_MS * 1e3)

    def fall(self, threshold: float) -> int:
        """The first window below so many MB/s. Raises `ValueError` if there is none."""
        for number, rate in enumerate(self.rates[: self.whole]):
            if rate < threshold:
                return number
        raise ValueError(f"no window is below {threshold:.0f} MB/s")

    def falls(self, threshold: float) -> int:
        """How often the throughput comes from above so many MB/s to less."""
        is_high = [rate >= threshold for rate in self.rates[: self.whole]]
        return sum(before and not after for before, after in pairwise(is_high))

    def written_gb(self, window: int) -> float:
        """Gigabytes written before a window."""
        return sum(self.bytes_by_window[:window]) / 1e9

    def fall_gb(self, threshold: float) -> float:
        """Gigabytes written before the first fall."""
        return self.written_gb(self.fall(threshold))

    def before(self, threshold: float) -> float:
        """MB/s until the first fall."""
        return self.mean(0, self.fall(threshold))

    def means(self, threshold: float, step_ms: int) -> list[float]:
        """MB/s of each whole step of so many milliseconds after the first fall."""
        step = step_ms // LOG_MS
        begins = range(self.fall(threshold), self.whole - step, step)
        return [self.mean(begin, begin + step) for begin in begins]

    def between_gb(self, begin: float, end: float) -> float:
        """MB/s while these gigabytes were written."""
        return (end - begin) * 1e3 / (self._seconds_at(end) - self._seconds_at(begin))

    def _seconds_at(self, gigabytes: float) -> float:
        """When so many gigabytes were written, between the ends of windows by proportion."""
        left = gigabytes * 1e9
        for number, one in enumerate(self.bytes_by_window):
            if left <= one:
                # Before any window without a request.
                part = left / one if one else 0.0
                return (number + part) * LOG_MS / 1e3
            left -= one
        raise ValueError(f"{gigabytes} GB were not written")

    def tail(self, threshold: float) -> float:
        """MB/s from the first fall until the end."""
        return self.mean(self.fall(threshold), self.whole)


def threshold(known: Times) -> float:
    """MB/s in the middle between the cache and three bits a cell."""
    return (known.cache_mb_per_s + known.bypass_mb_per_s) / 2


def job(case: Case) -> str:
    """The job file."""
    return (
        "[write]\nioengine=libaio\ndirect=1\nrw=write\n"
        f"bs={REQUEST_BYTES}\niodepth={DEPTH}\nsize={case.written_mib}m\n"
        f"write_bw_log=write\nlog_avg_msec={LOG_MS}\n"
    )


def _device(case: Case, folder: Path) -> str:
    """The device, or a copy of its file with another key."""
    if case.when_full == "bypass":
        return DEVICE
    text = (DEVICES / f"{DEVICE}.toml").read_text(encoding="utf-8")
    changed = text.replace('when_full = "bypass"', f'when_full = "{case.when_full}"')
    if changed == text:
        raise ValueError(f"devices/{DEVICE}.toml no longer says when_full = bypass")
    path = folder / "changed.toml"
    path.write_text(changed, encoding="utf-8")
    return str(path)


def measure(case: Case) -> Run:
    """Carries out the job of a case."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "write.fio").write_text(job(case), encoding="utf-8")
        found = nandlab.fio(
            folder / "write.fio",
            device=_device(case, folder),
            precondition=case.precondition,
            logs=folder / "logs",
        )
        (log,) = (folder / "logs").glob("*_bw.*.log")
        lines = log.read_text(encoding="utf-8").splitlines()
    rows = [[int(cell) for cell in line.split(",")[:2]] for line in lines]
    # A window in which no request ended has no line.
    windows = [0] * (rows[-1][0] // LOG_MS)
    for end_ms, kib_per_s in rows:
        windows[end_ms // LOG_MS - 1] = kib_per_s * 1024 * LOG_MS // 1000
    written = found.fio["jobs"][0]["write"]
    if abs(sum(windows) / written["io_bytes"] - 1) > 1e-3:
        raise ValueError("the log lacks bytes that the job wrote")
    elapsed_ns = round(written["io_bytes"] * 1e9 / written["bw_bytes"])
    return Run(windows, written["clat_ns"]["max"], elapsed_ns)


def measured() -> dict[Case, Run]:
    """All cases."""
    return {case: measure(case) for case in CASES}
