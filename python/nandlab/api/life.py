"""How long flash lasts under a workload, as a Python call."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from nandlab.api.answer import Answer, csv_text
from nandlab.api.given import Size, TraceReading, checked
from nandlab.byte_sizes import bytes_a_day
from nandlab.errors import NandlabError

if TYPE_CHECKING:
    from nandlab.comparison.request import WorkloadFile

COLUMNS = (
    "name",
    "verdict",
    "life_low_years",
    "life_high_years",
    "first_block_low_host_bytes",
    "first_block_high_host_bytes",
    "one_percent_low_host_bytes",
    "one_percent_high_host_bytes",
    "lifetime_host_bytes",
    "is_more",
)


class Life(Answer):
    """How long flash lasts: a verdict, a row for each candidate, the conditions."""

    @property
    def verdict(self) -> str:
        """Whether it lasts as long as was asked, with the margin; of each candidate."""
        return str(self.answer["verdict"])

    @property
    def conditions(self) -> str:
        """Under which conditions the answer holds."""
        return str(self.answer["conditions"])


def life(
    workload: str | Path,
    *,
    years: float = 10,
    ftl: str | None = None,
    fs: str | None = None,
    device: str | Path | None = None,
    part: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    blocks: int | None = None,
    logical_size: Size | None = None,
    address: Literal["error", "modulo", "clip"] = "error",
    rate: Size | None = None,
    board: str | Path | None = None,
    kernel: str | None = None,
    **reading: Unpack[TraceReading],
) -> Life:
    """How many years flash lasts if a workload goes on without end.

    The workload is repeated on each candidate until the pace of wear is known, and wear is
    extrapolated block by block to the end. Retention and read disturb follow the part's error
    model and its ECC. The answer is a range.

    Raises `NandlabError` for bad input.

    Args:
        workload: Workload file, as `nandlab compare` takes it, or a block trace.
        years: Set the years that the flash has to last.
        ftl: Use these translation layers, separated by commas, or ubi. For traces.
        fs: Use these file systems on raw NAND, separated by commas. For scripts.
        device: Use this device: a name (see `nandlab list devices`) or a device file. For traces,
            instead of --ftl.
        part: Use this chip: a name (see `nandlab list parts`) or a part file.
        settings: Set a parameter of the layer, as NAME=VALUE, or a key of the device. May be
            repeated.
        blocks: Replace the number of blocks of the part.
        logical_size: Set the size of the device, such as 100MiB. Without it: as much as fits.
        address: Choose what becomes of addresses past the end: error stops, modulo wraps them
            around, clip skips them.
        rate: Set the bytes that the host writes in a day, such as 2GiB/day. Without it: as the
            workload's own times say.
        board: Use this host: a name (see `nandlab list boards`) or a board file. With --fs.
        kernel: Use this kernel of the host, such as 6.12. With --fs.

    """
    if not 0 < years < 10_000:
        raise NandlabError(f"--years {years:g}: must be above 0 and below 10,000")
    bytes_per_day = None if rate is None else bytes_a_day(rate, "--rate")
    given = _workload_file(workload)
    if given is not None and given.kind != "trace":
        layered = {
            "--ftl": ftl,
            "--device": device,
            "--set": settings or None,
            "--logical-size": logical_size,
        }
        _refuse(layered, f"{given.shown} is a script: name file systems with --fs")
        if fs is None:
            raise NandlabError("--fs: name the file systems that carry out the script")
        from nandlab.lifetime.scripts import lives_of_file_systems

        rows, told = lives_of_file_systems(
            given,
            fs,
            "k9f2g08u0c" if part is None else str(part),
            blocks,
            None if board is None else str(board),
            kernel,
            years,
            bytes_per_day,
        )
        return _answer(given.shown, years, rows, told)
    mounted = {"--fs": fs, "--board": board, "--kernel": kernel}
    _refuse(mounted, "a trace has no file system: name translation layers with --ftl")
    trace: str | Path = workload
    if device is not None:
        chip = {"--ftl": ftl, "--part": part, "--blocks": blocks, "--logical-size": logical_size}
        _refuse(chip, "a device has its own; change keys of it with --set, as flash.ftl=page")
        if given is not None and given.file is not None:
            trace = given.file
        row = _device_row(trace, device, settings, address, reading, years, bytes_per_day)
        from nandlab.lifetime.traces import conditions

        return _answer(str(workload), years, [row], conditions([row]))
    if ftl is None:
        raise NandlabError(
            "--ftl: name translation layers, or ubi, that serve the trace; "
            "or name a device with --device"
        )
    if given is not None and given.file is not None:
        trace = given.file
        logical_size = logical_size or given.workload.get("capacity_bytes")
    options: dict[str, Any] = {"part": part, "settings": settings, "blocks": blocks}
    options |= {"address": address, "logical_size": logical_size, **reading}
    options = checked(options)
    options["logical_bytes"] = options.pop("logical_size")
    from nandlab.lifetime.traces import conditions, life_of_layer

    # A policy of the user's own is a file, whose name has its own case.
    names = [one.strip() for one in ftl.split(",")]
    layers = [one if ".py:" in one else one.lower() for one in names]
    rows = [life_of_layer(trace, one, options, years, bytes_per_day) for one in layers]
    return _answer(str(workload), years, rows, conditions(rows))


def _device_row(
    trace: str | Path,
    device: str | Path,
    settings: Mapping[str, Any] | None,
    address: str,
    reading: TraceReading,
    years: float,
    bytes_per_day: float | None,
) -> dict[str, Any]:
    from nandlab.api.runs import setting_text
    from nandlab.lifetime.traces import life_of_device

    changes = {key: setting_text(one) for key, one in (settings or {}).items()}
    how = checked(reading)
    return life_of_device(trace, str(device), changes, address, how, years, bytes_per_day)


def _refuse(given: Mapping[str, object], reason: str) -> None:
    """Raises `NandlabError` for the first option that this workload has no use for."""
    for option, value in given.items():
        if value is not None:
            raise NandlabError(f"{option}: {reason}")


def _workload_file(workload: str | Path) -> "WorkloadFile | None":
    """The workload file, if it is one; none for a trace."""
    if Path(workload).suffix != ".toml":
        return None
    from nandlab.comparison.request import read_workload

    return read_workload(Path(workload))


def _answer(
    shown: str, years: float, rows: list[dict[str, Any]], told: list[tuple[str, str]]
) -> Life:
    from nandlab.present.page import in_words

    flat = [
        {
            "name": row["name"],
            "verdict": row["verdict"],
            "life_low_years": row["life"]["low_years"],
            "life_high_years": row["life"]["high_years"],
            "first_block_low_host_bytes": row["first_block"]["low_bytes"],
            "first_block_high_host_bytes": row["first_block"]["high_bytes"],
            "one_percent_low_host_bytes": row["one_percent"]["low_bytes"],
            "one_percent_high_host_bytes": row["one_percent"]["high_bytes"],
            "lifetime_host_bytes": row["lifetime_host_bytes"],
            "is_more": row["life"]["is_more"],
        }
        for row in rows
    ]
    answer = {
        "question": f"Does it last {years:g} years?",
        "workload": shown,
        "years": years,
        "verdict": "; ".join(
            row["verdict"] if len(rows) == 1 else f"{row['name']}: {row['verdict']}" for row in rows
        ),
        "conditions": in_words(told),
        "candidates": rows,
    }
    return Life(answer, flat, csv_text(COLUMNS, flat))
