"""`nandlab convert`."""

from pathlib import Path
from typing import Any

from nandlab.cli.output_options import Output
from nandlab.cli.trace_options import TraceOptions


def convert(
    source: str,
    target: str,
    /,
    *,
    trace_options: TraceOptions | None = None,
    output: Output | None = None,
) -> int:
    """Convert a trace to Parquet and summarise it.

    The name of the target must end in .parquet: no other format is written.

    Parameters
    ----------
    source
        Trace file, plain or compressed, or - for standard input.
    target
        Parquet file to write, NAME.parquet.
    trace_options
        How to read the trace.
    output
        How to print the summary.

    """
    from nandlab import engine
    from nandlab.cli.output_options import form_of
    from nandlab.cli.standard_input import shown_dash
    from nandlab.errors import NandlabError
    from nandlab.outputs import check_file
    from nandlab.terminal.output import print_json, print_table, print_text

    form = form_of(output)
    check_file(Path(target))
    ending = Path(target).suffix
    if ending.lower() != ".parquet":
        named = Path(target).with_suffix(".parquet") if Path(target).name else "trace.parquet"
        raise NandlabError(
            f"{shown_dash(target)}: the name does not end in .parquet, and `convert` writes only "
            f"Parquet; write to {named}"
        )
    summary = engine.convert(
        shown_dash(source), target, (trace_options or TraceOptions()).for_engine()
    )
    if form == "json":
        print_json("convert", summary)
        return 0
    facts = [
        (name.replace("_", " "), _shown(value))
        for name, value in summary.items()
        if not isinstance(value, list)
    ]
    print_table(target, ("", ""), facts)
    sizes: list[dict[str, Any]] = summary.get("request_sizes", [])
    if sizes:
        print_table(
            "Request sizes",
            ("up to bytes", "requests"),
            [(_shown(row["up_to_bytes"]), _shown(row["requests"])) for row in sizes],
            frozenset({0, 1}),
        )
    for note in summary.get("notes", ()):
        print_text(f"Note: {note}")
    return 0


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
