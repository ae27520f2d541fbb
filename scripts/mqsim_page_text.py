"""The page that compares MQSim and nandlab on MQSim's own files, made of the record of the runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from textwrap import wrap
from typing import Any

from mqsim_reasons import BEFORE, REASONS
from mqsim_shipped import Flow, Run, of_record

Record = Mapping[str, Any]

FLOW_COLUMNS = (
    "scenario", "flow", "asked", "answered", "lost", "IOPS", "ratio", "MB/s", "mean response, us",
    "ratio",
)  # fmt: skip
DEVICE_COLUMNS = (
    "scenario", "flash reads", "programs", "erases", "write amplification", "ratio",
    "processor s", "ratio",
)  # fmt: skip
EXPERIMENT_COLUMNS = (
    "flows", "condition", "IOPS", "ratio", "mean response, us", "ratio", "flash reads", "programs",
)  # fmt: skip

Value = float | None


def _middle(values: Sequence[Value]) -> Value:
    known = [value for value in values if value is not None]
    return median(known) if known and len(known) == len(values) else None


def _shown(value: Value, form: str) -> str:
    return "-" if value is None else format(value, form)


def _both(theirs: Value, own: Value, form: str) -> str:
    return f"{_shown(theirs, form)} / {_shown(own, form)}"


def _ratio(theirs: Sequence[Value], own: Sequence[Value]) -> str:
    """Ratio of nandlab to MQSim run by run: its median, and the range if that is wider than 2 %."""
    ratios = [
        mine / other
        for other, mine in zip(theirs, own, strict=False)
        if mine is not None and other is not None and other > 0
    ]
    if not ratios:
        return "-"
    low, middle, high = min(ratios), median(ratios), max(ratios)
    wide = high - low > 0.02 * middle
    return f"{middle:.2f}" + (f" ({low:.2f} to {high:.2f})" if wide else "")


def iops(flow: Flow) -> Value:
    """Answers a second until the last of them."""
    return flow.answered / flow.seconds if flow.seconds else None


def bandwidth(flow: Flow) -> Value:
    """Megabytes a second."""
    return flow.transferred_bytes / flow.seconds / 1e6 if flow.seconds else None


def response(flow: Flow) -> Value:
    """Microseconds, of the answers."""
    return flow.mean_us if flow.answered else None


def total_iops(run: Run) -> float:
    """Answers a second of all flows."""
    return sum(iops(flow) or 0.0 for flow in run.flows)


def mean_response(run: Run) -> Value:
    """Microseconds, of the answers of all flows."""
    answered = sum(flow.answered for flow in run.flows)
    return sum(flow.mean_us * flow.answered for flow in run.flows) / answered if answered else None


def amplification(run: Run) -> Value:
    """Bytes of the programmed pages for a byte written."""
    return run.programs * PAGE_BYTES / run.written_bytes if run.written_bytes else None


PAGE_BYTES = 8_192
"""Page of every configuration that MQSim ships."""


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _table(columns: Sequence[str], rows: Sequence[str]) -> list[str]:
    left = ("scenario", "flows", "condition", "here")
    right = [":---" if name in left else "---:" for name in columns]
    return [_row(columns), f"|{'|'.join(right)}|", *rows, ""]


def _runs(row: Record, side: str) -> list[Run]:
    return [of_record(one) for one in row[side] if not isinstance(one, str)]


def _number(row: Record) -> str:
    doubles = row["doubles"]
    if not doubles:
        return str(row["number"])
    return f"{row['number']} (and {', '.join(map(str, doubles))}: the same)"


def flow_rows(row: Record) -> list[str]:
    """A row for each flow of a scenario."""
    theirs, own = _runs(row, "mqsim"), _runs(row, "nandlab")
    count = max((len(run.flows) for run in (*theirs, *own)), default=0)
    lines = []
    for index in range(count):
        left = [run.flows[index] for run in theirs]
        right = [run.flows[index] for run in own]

        def pair(
            value: Callable[[Flow], Value],
            form: str,
            left: list[Flow] = left,
            right: list[Flow] = right,
        ) -> str:
            return _both(_middle([*map(value, left)]), _middle([*map(value, right)]), form)

        lines.append(
            _row(
                (
                    _number(row) if index == 0 else "",
                    str(index + 1),
                    pair(lambda flow: flow.asked, ",.0f"),
                    pair(lambda flow: flow.answered, ",.0f"),
                    pair(lambda flow: flow.asked - flow.answered, ",.0f"),
                    pair(iops, ",.0f"),
                    _ratio([*map(iops, left)], [*map(iops, right)]),
                    pair(bandwidth, ",.1f"),
                    pair(response, ",.0f"),
                    _ratio([*map(response, left)], [*map(response, right)]),
                )
            )
        )
    return lines


def device_row(row: Record) -> str:
    """The row of a scenario on what the flash and the processor did."""
    theirs, own = _runs(row, "mqsim"), _runs(row, "nandlab")

    def pair(value: Callable[[Run], Value], form: str) -> str:
        return _both(_middle([*map(value, theirs)]), _middle([*map(value, own)]), form)

    def processor(run: Run) -> Value:
        return run.processor_s

    return _row(
        (
            _number(row),
            pair(lambda run: run.reads, ",.0f"),
            pair(lambda run: run.programs, ",.0f"),
            pair(lambda run: run.erases, ",.0f"),
            pair(amplification, ".2f"),
            _ratio([*map(amplification, theirs)], [*map(amplification, own)]),
            pair(processor, ".2f"),
            _ratio([*map(processor, theirs)], [*map(processor, own)]),
        )
    )


def _failures(file: Record) -> Iterator[str]:
    """What did not run of a pair of files."""
    name = f"`{file['name']}`"
    if not file["is_xml"]:
        yield f"- {name} is no XML: MQSim {file['mqsim']}; nandlab: {file['nandlab']}."
        return
    for row in file["scenarios"]:
        what = f"{name}, scenario {row['number']}"
        if missing := row.get("missing_trace"):
            yield f"- {what} is left out: the checkout has no `{missing}`."
            continue
        said = [one for one in row["mqsim"] if isinstance(one, str)]
        if said:
            yield f"- {what}: MQSim {said[0]}. The comparison of the file ends there."
        if refused := [one for one in row["nandlab"] if isinstance(one, str)]:
            yield f"- {what}: nandlab refused it: {refused[0]}."


def _summary(record: Record) -> list[str]:
    ratios, lost, own_lost, speed, count = [], 0, 0, [], 0
    for file in record["files"]:
        for row in file["scenarios"]:
            theirs, own = _runs(row, "mqsim"), _runs(row, "nandlab")
            if not theirs or not own:
                continue
            count += 1
            for left, right in zip(theirs, own, strict=True):
                ratios.append(total_iops(right) / total_iops(left))
                speed.append(right.processor_s / left.processor_s)
                lost += sum(flow.asked - flow.answered for flow in left.flows)
                own_lost += sum(flow.asked - flow.answered for flow in right.flows)
    if not ratios:
        return ["No scenario ran in both.", ""]
    within = sum(abs(one - 1) <= 0.05 for one in ratios)
    return [
        f"- {count} different scenarios of {len(record['files'])} pairs of files ran in both, "
        f"{len(ratios)} runs of each simulator.",
        f"- IOPS of all flows, nandlab/MQSim: median {median(ratios):.2f}, from {min(ratios):.2f} "
        f"to {max(ratios):.2f}; {within} of {len(ratios)} runs are within 5 %.",
        f"- Requests lost: {lost:,} by MQSim, {own_lost:,} by nandlab.",
        f"- Processor time, nandlab/MQSim: median {median(speed):.2f}, from {min(speed):.2f} to "
        f"{max(speed):.2f}.",
        "",
    ]


def _shortened(file: Record) -> str:
    cut = sorted(
        {(row["shipped_s"], row["run_s"]) for row in file["scenarios"]
         if row["run_s"] < row["shipped_s"]}
    )  # fmt: skip
    if not cut:
        return ""
    times = " and ".join(f"{run:g} s instead of {shipped:g} s" for shipped, run in cut)
    return f"Flows end after {times} of simulated time."


def _file_lines(file: Record) -> list[str]:
    ran = [row for row in file["scenarios"] if _runs(row, "mqsim") or _runs(row, "nandlab")]
    if not ran:
        return []
    lines = [f"### {file['name']}", ""]
    if text := _shortened(file):
        lines += [text, ""]
    lines += _table(FLOW_COLUMNS, [line for row in ran for line in flow_rows(row)])
    lines += _table(DEVICE_COLUMNS, [device_row(row) for row in ran])
    return lines


def _experiment_row(one: Record, is_first: bool) -> str:
    start = (one["group"] if is_first else "", one["label"])
    if "failed" in one:
        return _row((*start, one["failed"], "", "", "", "", ""))
    theirs, own = of_record(one["mqsim"]), of_record(one["nandlab"])
    return _row(
        (
            *start,
            _both(total_iops(theirs), total_iops(own), ",.0f"),
            _ratio([total_iops(theirs)], [total_iops(own)]),
            _both(mean_response(theirs), mean_response(own), ",.0f"),
            _ratio([mean_response(theirs)], [mean_response(own)]),
            _both(theirs.reads, own.reads, ",.0f"),
            _both(theirs.programs, own.programs, ",.0f"),
        )
    )


def _experiments(record: Record) -> list[str]:
    rows, group = [], ""
    for one in record["experiments"]:
        rows.append(_experiment_row(one, one["group"] != group))
        group = one["group"]
    return _table(EXPERIMENT_COLUMNS, rows)


def _paragraph(text: str, indent: str = "") -> list[str]:
    lines = wrap(
        text.strip(), 120, break_long_words=False, break_on_hyphens=False, subsequent_indent=indent
    )
    return [*lines, ""]


_MADE = """
Made by `scripts/mqsim_page.py` of `docs/mqsim-comparison.json`: do not edit. MQSim is a simulator
of SSDs by others. `MQSIM=/path/to/checkout scripts/mqsim_page.py run` runs every configuration that
it ships with every workload beside it, in MQSim and in [`nandlab mqsim`](mqsim.md). Nothing is
fetched: without `MQSIM` the script says so and ends with status 2.
"""
_AGREEMENT = """
Agreement says that two models are alike. It does not say which of them is nearer to a real drive.
"""
_FIGURES = """
A cell with a stroke has MQSim on the left and nandlab on the right; a dash stands for what is not
told. Ratios are nandlab/MQSim, run by run, with their range where it is wider than 2 %. *Asked* are
requests that a flow made, and *lost* those of them without an answer. IOPS and bandwidth are over
the time to the last answer of a flow. MQSim's own IOPS divide by whole seconds. So a log of it,
switched on in the copies, tells that time to a millisecond. Mean response is
`Device_Response_Time`. Programs to two planes count twice. Write amplification is bytes of
programmed pages for a byte written, so writes of half a page alone make 2. Processor seconds are
those of the whole command.
"""
_CONDITIONS = """
Copies of the same files with keys changed, 2 s of simulated time, shipped seeds. One run of each,
since both simulators repeat themselves.
"""


def page(record: Record) -> str:
    """The whole page."""
    lines = [
        "# MQSim and nandlab on MQSim's own files",
        "",
        *_paragraph(_MADE),
        *_table(("condition", "here"), [_row(pair) for pair in record["conditions"].items()]),
        "## In short",
        "",
        *_summary(record),
        *_paragraph(_AGREEMENT),
        "## Figures",
        "",
        *_paragraph(_FIGURES),
    ]
    for file in record["files"]:
        lines += _file_lines(file)
    failures = [line for file in record["files"] for line in _failures(file)]
    if failures:
        lines += ["## What did not run", ""]
        for line in failures:
            lines += _paragraph(line, indent="  ")[:-1]
        lines.append("")
    if record["experiments"]:
        lines += ["## One condition at a time", "", *_paragraph(_CONDITIONS)]
        lines += _experiments(record)
    return "\n".join([*lines, REASONS.strip(), "", BEFORE.strip(), ""])
