"""The record of assertions that were seen to fail, and its page."""

import json
from pathlib import Path
from typing import Any

from assertion_source import crates, files_of

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs" / "assertions.json"
PAGE = ROOT / "docs" / "assertions.md"

# What is kept of the evidence for an assertion.
EVIDENCE = ("test", "file", "line", "fault")


def in_source(root: Path = ROOT) -> dict[str, list[str]]:
    """The keys of all assertions outside tests, by crate, in the order of the files."""
    return {
        crate: [one.key for file in files_of(crate, root) for one in file.assertions()]
        for crate in crates(root)
    }


def evidence_of(data: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The evidence for each recorded assertion; empty if it was not seen to fail."""
    return {
        entry["assertion"]: {name: entry[name] for name in EVIDENCE if name in entry}
        for assertions in data["crates"].values()
        for entry in assertions
    }


def merged(
    found: dict[str, list[str]], known: dict[str, dict[str, str]], shown: list[dict[str, str]]
) -> dict[str, Any]:
    """The record of the assertions in the source; older evidence stays if there is none newer."""
    newer = {
        entry["assertion"]: {name: entry[name] for name in EVIDENCE if name in entry}
        for entry in shown
    }
    return {
        "crates": {
            crate: [{"assertion": key, **(known.get(key) or newer.get(key) or {})} for key in keys]
            for crate, keys in found.items()
            if keys
        }
    }


def record(path: Path, tried_folder: Path) -> None:
    """Takes results over; evidence that is known stays, and assertions that are gone go."""
    known, tried = {}, {}
    if DATA.exists():
        data = json.loads(DATA.read_text(encoding="utf-8"))
        known, tried = evidence_of(data), data["faults_tried"]
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for numbers in tried_folder.glob("*.json"):
        count = len(json.loads(numbers.read_text(encoding="utf-8")))
        tried[numbers.stem] = max(count, tried.get(numbers.stem, 0))
    data = {
        "faults_tried": dict(sorted(tried.items())),
        **merged(in_source(), known, [json.loads(line) for line in lines]),
    }
    DATA.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def differences(data: dict[str, Any], found: dict[str, list[str]]) -> list[str]:
    """What the record lacks, and what it names that the source does not have."""
    recorded = set(evidence_of(data))
    present = {key for keys in found.values() for key in keys}
    return sorted(
        [f"not in the record: {key}" for key in present - recorded]
        + [f"not in the source: {key}" for key in recorded - present]
    )


def counts(assertions: list[dict[str, str]]) -> tuple[int, int, int]:
    """How many assertions there are; failed with a fault; failed in a test without a fault."""
    with_fault = sum("fault" in entry for entry in assertions)
    without = sum("test" in entry and "fault" not in entry for entry in assertions)
    return len(assertions), with_fault, without


HEAD = """\
# Assertions that were seen to fail

Made by `scripts/assertion_faults.py page` of `docs/assertions.json`: do not edit. An *assertion* is
a call of `assert!`, `debug_assert!` or their `_eq` and `_ne` forms. Those of `crates/media`,
`crates/host`, `crates/fs` and `crates/lab` count, outside tests. `make assertion-faults` plants one
fault at a time in the source. Then it runs the tests of the same crate, without the slow ones. An
assertion is *shown* if it failed with a fault. It is also shown if it fails without one, in a test
that expects the panic. The record names the fault and the test. A fault may stand in the function
that holds the assertion, which shows no more than that the tests reach it. An *open* assertion was
not seen to fail: no fault that was tried leads to it.

| crate | faults tried | assertions | shown by a fault | shown by a test | shown | open |
|---|---:|---:|---:|---:|---:|---:|
"""


def _row(cells: list[Any]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |\n"


def page(data: dict[str, Any]) -> str:
    """The page of the data."""
    text = HEAD
    tried = data["faults_tried"]
    sums = [0] * 6
    for crate, assertions in data["crates"].items():
        total, faults, tests = counts(assertions)
        cells = [tried.get(crate, 0), total, faults, tests, faults + tests]
        cells += [total - faults - tests]
        sums = [left + right for left, right in zip(sums, cells, strict=True)]
        text += _row([crate, *cells])
    text += _row(["all", *sums])
    untried = [crate for crate in data["crates"] if not tried.get(crate)]
    if untried:
        names = ", ".join(f"`{crate}`" for crate in untried)
        text += f"\nNo fault was tried yet in these crates: {names}.\n"
    text += "\n## Which were not shown\n\n| crate | file | assertion |\n|---|---|---|\n"
    for crate, assertions in data["crates"].items():
        for entry in assertions:
            if "test" not in entry:
                file, key = entry["assertion"].split(": ", 1)
                name = file.split(f"/{crate}/src/", 1)[-1]
                text += _row([crate, name, "`` " + key.replace("|", "\\|") + " ``"])
    return text


def write_page() -> None:
    """Makes the page anew."""
    PAGE.write_text(page(json.loads(DATA.read_text(encoding="utf-8"))), encoding="utf-8")
