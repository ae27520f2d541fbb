"""Replays the workloads and judges their counts."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import fmean, median

from nandlab import engine
from nandlab.validation.workloads import KINDS, Counts, Workload, join_mounts

FEW = 20
"""Below so many operations, a difference of 2 is allowed where differences are."""

_JFFS2_SHARES = (0.13, 0.07, 0.12)
"""Spread of the kernel's own runs in reads, programs and erases."""

_JFFS2_EXACT = {
    "base": ("first-mount", "create", "seq-s4k", "seq-s32k", "rnd-end", "read"),
    "cut": ("first-mount", "fill", "write-fsynced", "write-unsynced"),
    "fill": ("first-mount", "fill1", "fill2"),
}
"""Phases in which nothing is left to chance: no mount of a full medium, no collecting."""


EXPLAINED = {
    ("jffs2/gc-x", "ow1"): (
        "the recorded runs collected very dirty blocks only (12 erases each); the clock chooses a "
        "dirty one for about one victim in eight, as the kernel does in the phases after it, and "
        "each costs one more erase: the sum of the four phases agrees"
    ),
    ("jffs2/gc-x", "re-mount"): (
        "with some seeds the very dirty blocks that the mount finds are just enough to wake the "
        "collector; in the three recorded runs they were not"
    ),
    ("jffs2/base-t", "seq-s32k"): (
        "an fsync moves small nodes until the page is full; the recorded run found room for one "
        "only, which a difference of some bytes in all that was compressed before explains"
    ),
}
"""Phases with figures that are further away than asked, and what causes that."""


@dataclass(frozen=True)
class Asked:
    """How near a figure must be: at the same number, or within a share."""

    share: float

    def __str__(self) -> str:
        """As the page says it."""
        return f"{self.share:.0%}" if self.share else "equal"

    def holds(self, recorded: list[float], shown: list[float]) -> bool:
        """Whether it is so near: the median of the seeds to equal, or the mean within the share."""
        wanted = fmean(recorded)
        if not self.share:
            return median(shown) in recorded
        difference = abs(fmean(shown) - wanted)
        return difference <= self.share * wanted or (wanted < FEW and difference <= 2)


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
        """Why it is not as near as asked, if that is known."""
        return EXPLAINED.get((self.workload.name, self.phase))

    @property
    def difference(self) -> float:
        """Mean of the replays less that of the recorded runs."""
        return fmean(self.shown) - fmean(self.recorded)


def asked_of(workload: Workload, phase: str, kind: int) -> Asked:
    """How near the counts of a phase must be."""
    implementation = workload.implementation.name
    if implementation == "yaffsdirect":
        return Asked(0)
    if implementation == "yaffs2":
        return Asked(0.01)
    name, data = workload.name.split("/")[1].rsplit("-", 1)
    is_plain = phase in _JFFS2_EXACT.get(name, ())
    if is_plain:
        return Asked(0 if data == "x" else 0.02)
    return Asked(_JFFS2_SHARES[kind])


def compare(workloads: list[Workload], progress: engine.Progress) -> list[Figure]:
    """Replays each workload with all its seeds; a figure for each phase and kind of operation."""
    tasks = [(one, seed) for one in workloads for seed in range(1, one.implementation.seeds + 1)]
    shown: dict[str, list[dict[str, list[Counts]]]] = {one.name: [] for one in workloads}
    with ThreadPoolExecutor(max_workers=2) as pool:
        runs = pool.map(lambda task: replay(*task), tasks)
        for done, ((workload, _), phases) in enumerate(zip(tasks, runs, strict=True)):
            shown[workload.name].append(phases)
            progress(done + 1, len(tasks), workload.name)
    return [figure for one in workloads for figure in _figures(one, shown[one.name])]


def replay(workload: Workload, seed: int) -> dict[str, list[Counts]]:
    """Counts by phase of one replay."""
    answer = engine.run_script(
        str(workload.script),
        workload.script.read_text(encoding="utf-8"),
        {
            "fs": workload.implementation.file_system,
            "part": None,
            "blocks": workload.blocks,
            "profile": workload.implementation.profile,
            "board": workload.implementation.board,
            "image": None,
            "seed": seed,
            "dirty_writeback_centisecs": 360_000,
            "keep_going": False,
            "workload": workload.name,
            "dump": None,
            "sequence": None,
            "dump_directory": None,
        },
    )
    return join_mounts(
        {row["phase"]: [(row["reads"], row["programs"], row["erases"])] for row in answer["phases"]}
    )


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
