"""The page of planted faults: what `scripts/mutants.py` found, and why some faults survived."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs" / "mutants.json"
PAGE = ROOT / "docs" / "mutants.md"
# The table that docs/validation.md shows.
TABLE = ROOT / "python" / "nandlab" / "validation" / "planted_faults.csv"

OUTCOMES = ("killed", "timeout", "survived", "unviable")
# It survived the first lists of tests, as many as `by` says, and is to meet the others.
OPEN = "open"


@dataclass(frozen=True)
class Result:
    """What became of a mutant."""

    mutant: str
    key: str
    outcome: str
    # The test that failed, or what the compiler or the clock said.
    by: str
    seconds: float
    # Hash of the file that the mutant was planted in.
    source: str


def results_of(folder: Path, crate: str) -> dict[str, Result]:
    """What is known of the mutants of a crate, the last word on each."""
    path = folder / f"{crate}.jsonl"
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {line["mutant"]: Result(**line) for line in lines}


def record(settings: dict[str, Any], folder: Path) -> None:
    """Takes results over; reasons that are known stay, and crates that were not run."""
    data: dict[str, Any] = {"crates": [], "survivors": []}
    if DATA.exists():
        data = json.loads(DATA.read_text(encoding="utf-8"))
    reasons = {entry["mutant"]: entry["reason"] for entry in data["survivors"]}
    crates = {entry["crate"]: entry for entry in data["crates"]}
    survivors = {crate: [s for s in data["survivors"] if s["crate"] == crate] for crate in crates}
    for crate in settings["crates"]:
        path = folder / f"{crate}.json"
        if not path.exists():
            continue
        head = json.loads(path.read_text(encoding="utf-8"))
        known = results_of(folder, crate)
        found = [known[name] for name in head["drawn"] if name in known]
        found = [result for result in found if result.outcome != OPEN]
        counts = {name: sum(result.outcome == name for result in found) for name in OUTCOMES}
        numbers = {"listed": head["listed"], "drawn": len(head["drawn"]), "tried": len(found)}
        crates[crate] = {"crate": crate, **numbers, **counts}
        survivors[crate] = [
            {"crate": crate, "mutant": result.key, "reason": reasons.get(result.key, "")}
            for result in sorted(found, key=lambda result: result.key)
            if result.outcome == "survived"
        ]
    data = {
        "seed": settings["seed"],
        "crates": [crates[crate] for crate in sorted(crates)],
        "survivors": [entry for crate in sorted(survivors) for entry in survivors[crate]],
    }
    DATA.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


HEAD = """\
# Planted faults, and the tests that notice them

Made by `scripts/mutants.py page` of `docs/mutants.json`: do not edit. `make mutants` plants the
faults that cargo-mutants knows, one at a time, and runs the tests of the same crate and no others.
A fault is *viable* if it compiles. It is *killed* if a test fails. It is *noticed* if it is killed
or if a test runs much longer than without it. Where a crate has many faults, some are drawn by the
seed `{seed}`.

| crate | faults | drawn | tried | viable | killed | timeout | survived | noticed |
|---|---:|---:|---:|---:|---:|---:|---:|---:|
"""


def share(entry: dict[str, Any]) -> str:
    """How many of the viable faults of a crate its tests notice."""
    # Those that are still open survived the quick tests: they may count as neither.
    most = entry["drawn"] - entry["unviable"]
    text = f"{100 * (entry['killed'] + entry['timeout']) / most:.1f} %" if most else "-"
    return text if entry["tried"] == entry["drawn"] else f"at least {text}"


def table(data: dict[str, Any]) -> str:
    """The table of the crates, as CSV."""
    text = "crate,faults,drawn,tried,viable,noticed,survived,share noticed\n"
    for entry in data["crates"]:
        viable = entry["tried"] - entry["unviable"]
        noticed = entry["killed"] + entry["timeout"]
        cells = [entry["crate"], entry["listed"], entry["drawn"], entry["tried"], viable]
        cells += [noticed, entry["survived"], share(entry)]
        text += ",".join(str(cell) for cell in cells) + "\n"
    return text


def page(data: dict[str, Any]) -> str:
    """The page of the data."""
    text = HEAD.format(seed=data["seed"])
    for entry in data["crates"]:
        viable = entry["tried"] - entry["unviable"]
        cells = [entry["crate"], entry["listed"], entry["drawn"], entry["tried"], viable]
        cells += [entry["killed"], entry["timeout"], entry["survived"], share(entry)]
        text += "| " + " | ".join(str(cell) for cell in cells) + " |\n"
    text += "\n## What survived, and why\n\n| crate | fault | reason |\n|---|---|---|\n"
    for entry in data["survivors"]:
        mutant = entry["mutant"].replace("|", "\\|")
        text += f"| {entry['crate']} | `{mutant}` | {entry['reason']} |\n"
    return text


def write_page() -> None:
    """Makes the page anew, and the table."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    PAGE.write_text(page(data), encoding="utf-8")
    TABLE.write_text(table(data), encoding="utf-8")
