"""Replays the workloads and judges their counts."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory

from nandlab import engine
from nandlab.interruption import received
from nandlab.validation.explanations import EXPLAINED
from nandlab.validation.orders import Order, compare_orders
from nandlab.validation.workloads import KINDS, Counts, Workload, join_mounts

FEW = 20
"""Below so many operations, a difference of 2 is allowed where differences are."""

_UBIFS_SHARE, _UBIFS_FEW = 0.02, 100
"""From so many operations on, the share is more than 2."""

_UBIFS_BEFORE_FILES = ("ubiformat", "mkvol", "first-mount")
"""With the attachments, what nothing but UBI and an empty file system decides."""

_JFFS2_SHARES = (0.13, 0.07, 0.12)
"""Spread of the kernel's own runs in reads, programs and erases."""

_JFFS2_EXACT = {
    "base": (
        "first-mount",
        "create",
        "seq-s4k",
        "seq-s32k",
        "rnd-end",
        "read",
        "full-umount",
        "empty-umount",
    ),
    "cut": ("first-mount", "fill", "write-fsynced", "write-unsynced"),
    "fill": (
        "first-mount",
        "fill1",
        "fill1-umount",
        "fill1-mount",
        "fill2",
        "fill2-umount",
        "fill2-mount",
    ),
    "gc": ("first-mount", "fill", "end-umount", "end2-umount"),
}
"""Phases in which nothing is left to chance: nothing was collected before, nor is within."""


@dataclass(frozen=True)
class Asked:
    """How near a figure must be: at the same number, or within a share.

    A difference of 2 is allowed besides, where fewer than `few` operations are expected.
    """

    share: float
    few: int = FEW

    def __str__(self) -> str:
        """As the page says it."""
        if not self.share:
            return "equal"
        return f"{self.share:.0%}" + (" or 2" if self.few == _UBIFS_FEW else "")

    def holds(self, recorded: list[float], shown: list[float]) -> bool:
        """Whether it is so near: the median of the seeds to equal, or the mean within the share."""
        wanted = fmean(recorded)
        if not self.share:
            return median(shown) in recorded
        difference = abs(fmean(shown) - wanted)
        return difference <= self.share * wanted or (wanted < self.few and difference <= 2)


@dataclass(frozen=True)
class Figure:
    """One kind of operation in one phase."""

    workload: Workload
    phase: str
    kind: str
    recorded: list[float]
    shown: list[float]
    asked: Asked

    @property
    def holds(self) -> bool:
        """Whether the replay is as near as asked."""
        return self.asked.holds(self.recorded, self.shown)

    @property
    def explanation(self) -> str | None:
        """Why it is not as near as asked, if that is known, and the figure not further off."""
        known = EXPLAINED.get((self.workload.name, self.phase, self.kind))
        return known.reason if known and abs(self.difference) <= known.most else None

    @property
    def difference(self) -> float:
        """Mean of the replays less that of the recorded runs."""
        return fmean(self.shown) - fmean(self.recorded)


def asked_of(workload: Workload, phase: str, kind: int) -> Asked:
    """How near the counts of a phase must be."""
    implementation = workload.implementation.name
    if implementation.startswith("ubifs"):
        return _asked_of_ubifs(workload, phase, kind)
    if implementation == "yaffsdirect":
        return Asked(0)
    if implementation == "yaffs2":
        return Asked(0.01)
    name, data = workload.name.split("/")[1].rsplit("-", 1)
    is_plain = phase in _JFFS2_EXACT.get(name, ())
    if is_plain:
        return Asked(0 if data == "x" else 0.02)
    return Asked(_JFFS2_SHARES[kind])


def _asked_of_ubifs(workload: Workload, phase: str, kind: int) -> Asked:
    """Equal before there are files, and where the kernel's own runs agree."""
    runs = [counts[kind] for counts in workload.recorded[phase]]
    is_compressed = workload.name.endswith("-t")
    agrees = len(runs) > 1 and len(set(runs)) == 1
    if phase in _UBIFS_BEFORE_FILES or "attach" in phase or (agrees and not is_compressed):
        return Asked(0)
    return Asked(_UBIFS_SHARE, 0 if is_compressed else _UBIFS_FEW)


@dataclass(frozen=True)
class Comparison:
    """Replays against recorded runs."""

    figures: list[Figure]
    orders: list[Order]
    unfinished: int = 0
    """Workloads that were not replayed with all their seeds before somebody stopped it."""


@dataclass(frozen=True)
class Replay:
    """One replay: counts by phase, and its order against the recorded one, if that was kept."""

    phases: dict[str, list[Counts]]
    order: Order | None


def compare(workloads: list[Workload], progress: engine.Progress) -> Comparison:
    """Replays each workload with all its seeds; a figure for each phase and kind of operation.

    The order of operations is that of the seed that keeps step with the recorded run for longest.
    """
    tasks = [(one, seed) for one in workloads for seed in range(1, one.implementation.seeds + 1)]
    shown: dict[str, list[Replay]] = {one.name: [] for one in workloads}
    with ThreadPoolExecutor(max_workers=2) as pool:
        runs = [pool.submit(replay, *task) for task in tasks]
        try:
            for done, ((workload, _), run) in enumerate(zip(tasks, runs, strict=True)):
                shown[workload.name].append(run.result())
                progress(done + 1, len(tasks), workload.name)
        except BaseException as reason:
            # The threads of the pool hear of no signal.
            pool.shutdown(wait=False, cancel_futures=True)
            engine.stop()
            if not isinstance(reason, KeyboardInterrupt):
                raise
    return _judged(workloads, shown)


def _judged(workloads: list[Workload], shown: dict[str, list[Replay]]) -> Comparison:
    """The figures of the workloads that were replayed with all their seeds."""
    figures, orders = [], []
    finished = [one for one in workloads if len(shown[one.name]) == one.implementation.seeds]
    for workload in finished:
        runs_of = shown[workload.name]
        figures += _figures(workload, [run.phases for run in runs_of])
        found = [run.order for run in runs_of if run.order]
        if found:
            orders.append(max(found, key=lambda order: order.in_step))
    return Comparison(figures, orders, len(workloads) - len(finished))


def replay(workload: Workload, seed: int) -> Replay:
    """Carries the workload out with one seed."""
    with TemporaryDirectory(prefix="nandlab-validate-") as folder:
        sequence = Path(folder) / "operations.seq" if workload.sequence else None
        phases = _counts(workload, seed, sequence)
        if sequence is None or workload.sequence is None:
            return Replay(phases, None)
        return Replay(phases, compare_orders(workload, workload.sequence, sequence))


def _counts(workload: Workload, seed: int, sequence: Path | None) -> dict[str, list[Counts]]:
    answer = engine.run_script(
        str(workload.script),
        workload.script.read_text(encoding="utf-8"),
        {
            "fs": workload.implementation.file_system,
            "part": None,
            "blocks": workload.blocks,
            "vid_hdr_offset": None,
            "profile": workload.implementation.profile,
            "board": workload.implementation.board,
            "image": None,
            "seed": seed,
            "dirty_writeback_centisecs": 360_000,
            "keep_going": False,
            "workload": workload.name,
            "dump": None,
            "sequence": str(sequence) if sequence else None,
            "dump_directory": None,
        },
        _watch,
    )
    if answer["interrupted"]:
        raise KeyboardInterrupt
    return join_mounts(
        {row["phase"]: [(row["reads"], row["programs"], row["erases"])] for row in answer["phases"]}
    )


def _watch(_done: int, _total: int, _label: str) -> None:
    """Stops a replay that began just as all were asked to stop, and so took that back."""
    if received():
        raise KeyboardInterrupt


def _figures(workload: Workload, runs: list[dict[str, list[Counts]]]) -> list[Figure]:
    figures = []
    for phase, recorded in workload.recorded.items():
        if phase not in runs[0]:
            continue
        for kind, name in enumerate(KINDS):
            figures.append(
                Figure(
                    workload,
                    phase,
                    name,
                    [counts[kind] for counts in recorded],
                    [counts[kind] for run in runs for counts in run[phase]],
                    asked_of(workload, phase, kind),
                )
            )
    return figures
