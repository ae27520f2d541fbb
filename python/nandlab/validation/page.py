"""Writes docs/validation.md."""

from statistics import fmean

from nandlab.validation.comparison import Figure
from nandlab.validation.workloads import IMPLEMENTATIONS

_HEAD = """\
# Operation counts against real code

Made by `nandlab validate --out docs/validation.md`: do not edit. The scripts of
`workloads/raw-nand` were carried out by real file systems over a simulated chip, and are
carried out here. What the chip did is compared phase by phase. Threads go on after a mount
returns; their work is added to the mount, for the border is a matter of timing.

*recorded* is the mean of the recorded runs, with the least and the greatest where there were
several. *here* is the mean over the seeds, *asked* how near it must be: `equal` compares the
median of the seeds; elsewhere the mean must be within the share, or within 2 where fewer than
20 operations are expected. Rows in which nothing happens, there or here, are left out.
"""

_NOTES = {
    "jffs2": """\
Differences that remain:

- **Collecting** (`rnd-each`, `ow`, `ow1` to `ow4`, `delete`): the next block to collect comes
  from a list that the low bits of the kernel's clock choose, and the collector's thread runs
  beside the writer. The seeds stand for when the clock began, the board for how fast the
  machine was; neither is known of a recorded run. Shares are the spread that the kernel's own
  runs showed.
- **Single reads more or less in `seq-*` and `rnd-end`**: an fsync moves a node of a block that
  is chosen in that way, instead of padding the page. How many pages the node lies on depends on
  the block.
- **Mounts of a full medium** (`re-mount`, `fill1-mount` …): the kernel reads 0.05 to 2 % more.
  Nodes are checked inode by inode in the order of a hash table; a page that was just read is
  read again when another node on it is checked, and the kernel's own runs differ by up to 2 %.
- **Erases left to the next mount** (`delete`, `re2-mount`): blocks without live nodes are
  erased before or after the unmount, as the thread comes to them. Their sum agrees.
""",
    "yaffs2": """\
Differences that remain: the background task writes the headers of changed directories once a
second. A phase that lasts across one more second has one program and one read more.
""",
    "yaffsdirect": """\
The library has no threads and no page cache: every figure is equal. Phases of `cut` after the
power cut were recorded with another script and are not compared.
""",
}


def render(figures: list[Figure]) -> str:
    """The whole page."""
    parts = [_HEAD, _summary(figures)]
    for implementation in IMPLEMENTATIONS:
        own = [figure for figure in figures if figure.workload.implementation == implementation]
        if not own:
            continue
        seeds = f", {implementation.seeds} seeds" if implementation.seeds > 1 else ""
        parts.append(f"## {implementation.title}: profile `{implementation.profile}`{seeds}\n")
        parts += [_table(name, own) for name in dict.fromkeys(one.workload.name for one in own)]
        parts.append(_NOTES[implementation.name])
    return "\n".join(parts)


def _summary(figures: list[Figure]) -> str:
    lines = [
        "| implementation | figures | equal | as near as asked | further away, explained | not |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for implementation in IMPLEMENTATIONS:
        own = [figure for figure in figures if figure.workload.implementation == implementation]
        equal = sum(figure.difference == 0 for figure in own)
        held = sum(figure.holds for figure in own)
        explained = sum(not figure.holds and figure.explanation is not None for figure in own)
        cells = [implementation.title, len(own), equal, held, explained]
        cells.append(len(own) - held - explained)
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return "\n".join([*lines, ""])


def _table(workload: str, figures: list[Figure]) -> str:
    lines = [
        f"### {workload}\n",
        "| phase | operation | recorded | here | difference | asked | |",
        "|---|---|---:|---:|---:|---|---|",
    ]
    for figure in figures:
        if figure.workload.name != workload or not any((*figure.recorded, *figure.shown)):
            continue
        verdict = "ok" if figure.holds else "explained" if figure.explanation else "**differs**"
        cells = [figure.phase, figure.kind, _recorded(figure), _number(fmean(figure.shown))]
        cells += [_difference(figure), str(figure.asked), verdict]
        lines.append(f"| {' | '.join(cells)} |")
    explained = {
        figure.phase: figure.explanation
        for figure in figures
        if figure.workload.name == workload and not figure.holds and figure.explanation
    }
    lines += [f"\n*{phase}*: {explanation}." for phase, explanation in explained.items()]
    return "\n".join([*lines, ""])


def _recorded(figure: Figure) -> str:
    text = _number(fmean(figure.recorded))
    least, most = min(figure.recorded), max(figure.recorded)
    return text if least == most else f"{text} [{_number(least)}..{_number(most)}]"


def _difference(figure: Figure) -> str:
    difference = figure.difference
    wanted = fmean(figure.recorded)
    if difference == 0:
        return "0"
    share = f" ({difference / wanted:+.1%})" if wanted else ""
    return f"{_number(difference, sign='+')}{share}"


def _number(value: float, sign: str = "") -> str:
    return f"{value:{sign},.0f}" if value == round(value) else f"{value:{sign},.1f}"
