"""Writes docs/validation.md."""

from statistics import fmean

from nandlab.validation import published_times, recorded
from nandlab.validation.comparison import Comparison, Figure
from nandlab.validation.explanations import DEPARTURES
from nandlab.validation.orders import Order
from nandlab.validation.workloads import IMPLEMENTATIONS

_HEAD = """\
# Operation counts against real code

Made by `nandlab validate --out docs/validation.md`: do not edit. Real file systems ran the scripts
of `workloads/raw-nand` over a simulated chip, and nandlab runs the same scripts. The chip's
operations are compared phase by phase. Threads go on after a mount returns. Their work is added to
the mount, because the border is a matter of timing.

*recorded* is the mean of the recorded runs, with the least and the greatest where there are
several. *here* is the mean over the seeds. *asked* says how near it must be:

- `equal` compares the median of the seeds.
- A share bounds the distance of the mean, which may also be within 2 where fewer than 20 operations
  are expected.
- `or 2` permits a distance of 2 at any number.

Rows in which nothing happens, there or here, are left out. A figure that is further away and is
explained has a bound of its own.
"""

_NOTES = {
    "jffs2": """\
Differences that remain:

- **Collecting** (`rnd-each`, `ow`, `ow1` to `ow4`, `delete`): the low bits of the kernel's clock
  choose the list from which the next block is collected. The collector's thread runs beside the
  writer. The seeds stand for when the clock began, the board for how fast the machine was. Neither
  is known of a recorded run. The permitted shares are the spread of the kernel's own runs.
- **Single reads more or less in `seq-*` and `rnd-end`**: an fsync moves a node instead of padding
  the page. The node's block is chosen in that way, and decides how many pages the node spans.
- **Mounts of a full medium** (`re-mount`, `fill1-mount` …): the kernel reads 0.05 to 2 % more. It
  checks nodes inode by inode in the order of a hash table. A page that was just read is read again
  when another node on it is checked. The kernel's own runs differ by up to 2 %.
- **Erases left to the next mount** (`delete`, `re2-mount`): the thread erases blocks without live
  nodes before or after the unmount. The sum agrees.
""",
    "ubifs": """\
Equal counts are required for attachments, the making of the volume and first mounts. They are also
required wherever two runs of the kernel agree on incompressible data. On text the bound is 2 %,
elsewhere 2 % or 2.

Differences that remain: inodes keep whole seconds, and one that is written again after a second has
ended is dirty again. The seeds begin anywhere in a second, and where the recorded runs began is not
known. On a full chip of 64 blocks, such a node decides what is collected next.
""",
    "ubifs2048": """\
As above, with UBI's volume identifier headers in pages of their own.
""",
    "yaffs2": """\
Differences that remain: the background task writes the headers of changed directories once a
second. A phase that lasts across one more second has one program and one read more.
""",
    "yaffsdirect": """\
The library has no threads and no page cache: every figure is equal. Phases of `cut` after the power
cut were recorded with another script and are not compared.
""",
}


def render(comparison: Comparison) -> str:
    """The whole page."""
    figures = comparison.figures
    left_out = f"Stopped before its end: {comparison.unfinished} workloads are left out.\n"
    parts = [_HEAD, *([left_out] if comparison.unfinished else []), _summary(figures)]
    for implementation in IMPLEMENTATIONS:
        own = [figure for figure in figures if figure.workload.implementation == implementation]
        if not own:
            continue
        seeds = f", {implementation.seeds} seeds" if implementation.seeds > 1 else ""
        parts.append(f"## {implementation.title}: profile `{implementation.profile}`{seeds}\n")
        parts += [_table(name, own) for name in dict.fromkeys(one.workload.name for one in own)]
        parts.append(_NOTES[implementation.name])
    parts += [_orders(comparison.orders), _BIOS, recorded.sections(), published_times.section()]
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
    reasons: dict[str, list[str]] = {}
    for figure in figures:
        if figure.workload.name == workload and not figure.holds and figure.explanation:
            reasons.setdefault(figure.explanation, []).append(f"{figure.phase} {figure.kind}")
    lines += [f"\n*{', '.join(places)}*: {reason}." for reason, places in reasons.items()]
    return "\n".join([*lines, ""])


_ORDERS_HEAD = """\
## The order of operations

One run of each workload was recorded with every operation in order. *in step* is the number of
equal operations, at the same places of the chip, before the first difference. *same* counts the
phases that are the same throughout, *reordered* those with the same operations in another order.
With several seeds, the one that keeps step for longest is shown.

`R`, `S` and `O` read a page, a part of one or a spare area. `P` and `Q` program a page or a spare
area. `E` erases a block.
"""


_BIOS = """\
## Bios of NILFS2

Linux 6.12 ran six scripts (`crates/nilfs2/tests/data/bios`) on NILFS2 over virtio-blk, while
blktrace noted every bio as it was queued. The engine's bios for the same scripts are compared line
by line (`crates/nilfs2/tests/all/kernel_bios.rs`). *equal* means the same line of the script, task
(caller or constructor's thread), sector, length, flags and order.
`python/tests/test_kernel_bios_nilfs2.py` records them again.

| | recorded | equal | explained | not |
|---|---:|---:|---:|---:|
| logs (10,765 blocks) | 163 | 163 | 0 | 0 |
| superblocks | 35 | 35 | 0 | 0 |
| flushes | 127 | 127 | 0 | 0 |
| lines of scripts that read (6,644 bios of 8,192 blocks) | 26 | 24 | 2 | 0 |

What is explained, or left to chance in the kernel:

- **Read-ahead of metadata**: while the first block is read, up to 15 blocks of a metadata file and
  7 nodes of a map are read ahead. How many is a race that the kernel's own runs decide differently.
  The recordings hold the outcome that the engine has.
- **A call for more than the read-ahead window** (`read whole 1m`) reads as much as a request of the
  device may hold. Here it reads 128 KiB, as before Linux 4.10.
- **A file that is cut** keeps its last page in the kernel's page cache. Here that block is read.
- **The first look at the superblocks** is two reads of 1 KiB a mount. Here it reads blocks of 4 KiB
  at once.
- **A long log is one bio or two**: 256 pieces of memory fit, and pages that lie side by side are
  one piece. The bios of a log are joined before they are compared.
- **Races** (`races.ops`): a removed directory is deleted before or after the flush of a `sync`,
  which makes one checkpoint or two. `sync` visits the file of inodes before files that were
  overwritten (one log) or after them (data-sync logs first). The recording holds the outcome that
  the engine has.
"""


def _orders(orders: list[Order]) -> str:
    lines = [
        _ORDERS_HEAD,
        "| workload | operations | in step | phases | same | reordered | first departs in "
        "| recorded | here |",
        "|---|---:|---:|---:|---:|---:|---|---|---|",
    ]
    for order in orders:
        same = sum(phase.is_same for phase in order.phases)
        reordered = sum(phase.has_same_operations for phase in order.phases) - same
        cells = [order.workload.name, f"{order.length:,}", f"{order.in_step:,}"]
        cells += [str(len(order.phases)), str(same), str(reordered)]
        if departure := order.departure:
            cells.append(f"{departure.phase}, operation {departure.number:,}")
            cells += [
                f"`{line}`" if line else "none" for line in (departure.recorded, departure.shown)
            ]
        else:
            cells += ["nowhere", "", ""]
        lines.append(f"| {' | '.join(cells)} |")
    reasons: dict[str, list[str]] = {}
    for order in orders:
        if order.departure and order.workload.name in DEPARTURES:
            _, reason = DEPARTURES[order.workload.name]
            reasons.setdefault(reason, []).append(order.workload.name)
    lines += [f"\n*{', '.join(names)}*: {reason}." for reason, names in reasons.items()]
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
