"""`nandlab replay`."""

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from nandlab.cli.output_options import CsvOutput
from nandlab.cli.trace_options import TraceOptions


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
    output: CsvOutput | None = None,
) -> int:
    """Replay a trace on a translation layer and count chip operations.

    Parameters
    ----------
    trace
        Trace file, plain or compressed, or - for standard input.
    ftl
        Use this translation layer (see `nandlab list ftls`).
    part
        Use this chip: a name (see `nandlab list parts`) or a part file.
    sets
        Set a parameter of the layer, as NAME=VALUE. May be repeated.
    blocks
        Replace the number of blocks of the part.
    logical_size
        Set the size of the device, such as 100MiB. Without it: as much as fits.
    address
        Choose what becomes of addresses past the end: error stops, modulo wraps them around, clip
        skips them.
    passes
        Replay the trace this many times and count the last pass.
    fill
        Write the whole device once before the trace, without counting it.
    trace_options
        How to read the trace.
    out
        Write the metrics into this folder.
    output
        How to print the metrics.

    """
    from functools import partial

    from nandlab import engine
    from nandlab.byte_sizes import natural_number
    from nandlab.cli.output_options import form_of
    from nandlab.cli.settings import parse_settings
    from nandlab.cli.standard_input import shown_dash
    from nandlab.frame.run_directory import check_target
    from nandlab.outputs import keep

    form = form_of(output)
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
    _print(answer, form)
    return 0


def _state(passes: int, *, fill: bool) -> str:
    """The history of the device before counting began, on which every cost depends."""
    done = ["every page written once"] if fill else []
    if passes > 1:
        done.append(f"the trace replayed {'once' if passes == 2 else f'{passes - 1} times'}")
    return ", then ".join(done) if done else "as delivered: erased"


def _advice(metrics: list[dict[str, Any]], *, fill: bool) -> list[str]:
    """Advice against reads of pages that were never written."""
    found = {row["metric"]: row["value"] for row in metrics}
    if fill or not found.get("unwritten_read_pages"):
        return []
    return [
        "--fill writes the whole device before the trace; --passes 2 replays the trace once before"
    ]


def _size(text: str) -> int:
    from nandlab.byte_sizes import natural_number, parse_bytes

    return natural_number("--logical-size", parse_bytes(text, "--logical-size"), bits=64)


def _print(answer: dict[str, Any], form: str) -> None:
    from nandlab.terminal.output import print_csv, print_json, print_table, print_text

    metrics = answer["metrics"]
    if form == "json":
        print_json("replay", answer)
    elif form == "csv":
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

    from nandlab.frame.run_directory import MANIFEST, whole_folder
    from nandlab.json_text import json_text

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
    """The unit; the lifetime also in larger units."""
    from nandlab.present.units import large_size

    is_life = row["metric"] == "lifetime_host_bytes"
    return f"{row['unit']}: {large_size(row['value'])}" if is_life else str(row["unit"])


def _shown(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)
