"""`nandlab replay`."""

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from nandlab.cli.trace_options import TraceOptions
from nandlab.terminal.output import OutputFormat


def replay(
    trace: str,
    /,
    *,
    ftl: str,
    part: str | None = None,
    sets: Annotated[list[str] | None, Parameter(name="--set", negative=())] = None,
    blocks: int | None = None,
    logical_size: str | None = None,
    address: Literal["error", "modulo", "clip"] = "error",
    passes: int = 1,
    fill: Annotated[bool, Parameter(negative=())] = False,
    trace_options: TraceOptions | None = None,
    out: Path | None = None,
    output_format: OutputFormat = "table",
) -> int:
    """Replay a trace on a translation layer and a chip, and count what the chip did.

    Parameters
    ----------
    trace
        Trace file, plain or compressed; - for standard input.
    ftl
        Translation layer (see `nandlab list ftls`).
    part
        Chip: a name (see `nandlab list parts`) or a part file.
    sets
        name=value, a setting of the layer; may be repeated.
    blocks
        Blocks of the chip, in place of the part's own number.
    logical_size
        Size the device offers, such as 100MiB; as much as fits if left out.
    address
        What to do with addresses past the end: stop, wrap around, or leave them out.
    passes
        Times the trace is replayed; only the last one is counted.
    fill
        Write the whole device once, in order, before the trace; this is not counted.
    trace_options
        How to read the trace.
    out
        Folder for the metrics as files.
    output_format
        How to print the metrics.

    """
    from functools import partial

    from nandlab import engine
    from nandlab.byte_sizes import natural_number
    from nandlab.cli.settings import parse_settings
    from nandlab.cli.standard_input import shown_dash
    from nandlab.outputs import keep
    from nandlab.results.run_directory import check_target

    natural_number("--passes", passes)
    if blocks is not None:
        natural_number("--blocks", blocks)
    if out is not None:
        check_target(out)
    options = {
        "ftl": ftl,
        "part": part,
        "settings": parse_settings(sets),
        "blocks": blocks,
        "logical_bytes": None if logical_size is None else _size(logical_size),
        "address": address,
        "passes": passes,
        "fill": fill,
        **(trace_options or TraceOptions()).for_engine(),
    }
    answer = engine.replay(shown_dash(trace), options)
    answer["device"]["initial_state"] = _state(passes, fill=fill)
    answer["notes"] = [*answer.get("notes", ()), *_advice(answer["metrics"], fill=fill)]
    if out is not None:
        keep(out, partial(_write, answer))
    _print(answer, output_format)
    return 0


def _state(passes: int, *, fill: bool) -> str:
    """What the device went through before counting began: it decides what everything costs."""
    done = ["every page written once"] if fill else []
    if passes > 1:
        done.append(f"the trace replayed {'once' if passes == 2 else f'{passes - 1} times'}")
    return ", then ".join(done) if done else "as delivered: erased"


def _advice(metrics: list[dict[str, Any]], *, fill: bool) -> list[str]:
    """What to do about reads of pages that hold nothing."""
    found = {row["metric"]: row["value"] for row in metrics}
    if fill or not found.get("unwritten_read_pages"):
        return []
    return ["--fill writes the whole device before the trace; --passes 2 replays the trace before"]


def _size(text: str) -> int:
    from nandlab.byte_sizes import natural_number, parse_bytes

    return natural_number("--logical-size", parse_bytes(text, "--logical-size"), bits=64)


def _print(answer: dict[str, Any], output_format: OutputFormat) -> None:
    from nandlab.terminal.output import print_csv, print_json, print_table, print_text

    metrics = answer["metrics"]
    if output_format == "json":
        print_json(answer)
    elif output_format == "csv":
        print_csv(
            ("metric", "value", "unit"),
            [(row["metric"], row["value"], row["unit"]) for row in metrics],
        )
    else:
        facts = {**answer.get("trace", {}), **answer.get("device", {})}
        print_table("", ("replay", ""), [(name, _shown(value)) for name, value in facts.items()])
        print_table(
            "",
            ("metric", "value", "unit"),
            [(row["metric"], _shown(row["value"]), _unit(row)) for row in metrics],
            frozenset({1}),
        )
        for note in answer.get("notes", ()):
            print_text(f"Note: {note}")


def _write(answer: dict[str, Any], out: Path) -> None:
    import csv

    from nandlab.json_text import json_text
    from nandlab.results.run_directory import MANIFEST, whole_folder

    with whole_folder(out) as folder:
        text = json_text({"kind": "replay", **answer})
        (folder / MANIFEST).write_text(f"{text}\n", encoding="utf-8")
        with (folder / "metrics.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("metric", "value", "unit"))
            writer.writerows(
                (row["metric"], row["value"], row["unit"]) for row in answer["metrics"]
            )


def _unit(row: dict[str, Any]) -> str:
    """The unit; life is so many bytes that it is said in larger ones, too."""
    from nandlab.verdicts.wording import large_size

    is_life = row["metric"] == "lifetime_host_bytes"
    return f"{row['unit']}: {large_size(row['value'])}" if is_life else str(row["unit"])


def _shown(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)
