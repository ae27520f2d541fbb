"""Lives of translation layers, of UBI and of named devices under a block trace."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nandlab import engine
from nandlab.lifetime.verdict import span, verdict

UBI = "ubi"
"""Name of the stack that is UBI with one volume instead of a translation layer."""


def life_of_layer(
    trace: str | Path,
    layer: str,
    options: Mapping[str, Any],
    years: float,
    bytes_per_day: float | None,
) -> dict[str, Any]:
    """What the engine found, with the spans and the verdict; a table as JSON has it."""
    given = {**options, "ftl": layer}
    return _row(layer, engine.life_of_trace(trace, given, years, bytes_per_day), years)


def life_of_device(
    trace: str | Path,
    device: str,
    changes: Mapping[str, str],
    address: str,
    reading: Mapping[str, Any],
    years: float,
    bytes_per_day: float | None,
) -> dict[str, Any]:
    """The same of a named device; `changes` are keys of its file."""
    arguments = {
        "device": device,
        "changes": dict(changes),
        "address": address,
        "bytes_per_day": bytes_per_day,
        "years": years,
    }
    return _row(device, engine.life_of_device(trace, arguments, reading), years)


def _row(name: str, found: dict[str, Any], years: float) -> dict[str, Any]:
    ends = found["ends"]
    rate = found["bytes_per_day"]

    def of(which: str) -> Any:
        return span([(one[which]["host_bytes"], one[which]["is_more"]) for one in ends], rate)

    life = of("life")
    return {
        "name": name,
        "verdict": verdict(life, years, writes=found["pass_bytes"] > 0),
        "life": vars(life),
        "first_block": vars(of("first_block")),
        "one_percent": vars(of("one_percent")),
        "lifetime_host_bytes": found["lifetime_host_bytes"],
        "bytes_per_day": rate,
        "cycles_within_ecc": [one["cycles_within_ecc"] for one in ends],
        "erase_cycles_max": found["erase_cycles_max"],
        "details": found,
    }


def conditions(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Under which conditions the lives hold; where layers differ, those of each."""
    told = [_conditions_of(row) for row in rows]
    names = [name for name, _ in told[0]]
    columns = [list(dict.fromkeys(one[place][1] for one in told)) for place in range(len(names))]
    of_each = [str(row["name"]) for row in rows]

    def joined(place: int) -> str:
        if len(columns[place]) == 1:
            return columns[place][0]
        parts = zip(of_each, (one[place][1] for one in told), strict=True)
        return ", ".join(f"{value} ({name})" for name, value in parts)

    return [(name, joined(place)) for place, name in enumerate(names)]


def _conditions_of(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = row["details"]
    ages = " to ".join(f"{one['data_age_years']:.3g}" for one in found["ends"])
    return [
        ("part", f"{found['part']}, {found['chip']}"),
        ("device", f"{found['capacity_bytes']:,} bytes"),
        ("over-provisioning", f"{found['over_provisioning_percent']:.3g} %"),
        ("static share", "none to all that the trace does not write"),
        ("age of data", f"{ages} years"),
        ("temperature", "the rated one; others are not modelled"),
    ]
