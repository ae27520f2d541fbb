"""Compares MQSim and nandlab on the files that MQSim ships, and makes the page of it.

    MQSIM=/path/to/checkout scripts/mqsim_page.py run
    scripts/mqsim_page.py page

`run` needs a checkout of MQSim with its built program, named by MQSIM or --mqsim: nothing is built
or fetched. It writes docs/mqsim-comparison.json and the page, docs/mqsim-comparison.md. `page`
makes the page again from that record. Exit status 2: no MQSim, no nandlab, or a bad option.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from compare_mqsim_sides import ComparisonError
from mqsim_experiments import run_experiments
from mqsim_page_text import page
from mqsim_shipped import (
    SEED_STEP,
    Pair,
    as_record,
    missing_trace,
    pairs,
    parsed,
    run_mqsim,
    run_nandlab,
    scenarios_of,
    stop_seconds,
    write_copies,
)

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "docs" / "mqsim-comparison.json"
PAGE = ROOT / "docs" / "mqsim-comparison.md"


def compare_whole(pair: Pair, binary: Path, nandlab: str, limit_s: int) -> dict[str, Any]:
    """A pair of files of which one is no XML, as they are: what each simulator says."""
    record: dict[str, Any] = {"name": pair.name, "is_xml": False, "scenarios": []}
    with tempfile.TemporaryDirectory(prefix="mqsim-page-") as name:
        copies = Path(name) / "device.xml", Path(name) / "flow.xml"
        shutil.copy(pair.device, copies[0])
        shutil.copy(pair.workload, copies[1])
        for side in ("mqsim", "nandlab"):
            try:
                if side == "mqsim":
                    run_mqsim(binary, *copies, limit_s)
                else:
                    run_nandlab(nandlab, *copies)
                record[side] = "ran"
            except ComparisonError as error:
                record[side] = str(error)
    return record


def compare_pair(pair: Pair, given: argparse.Namespace) -> dict[str, Any]:
    """All scenarios of a pair of files, the two simulators in turns."""
    if parsed(pair.device) is None or parsed(pair.workload) is None:
        return compare_whole(pair, given.binary, given.nandlab, given.limit_s)
    record: dict[str, Any] = {"name": pair.name, "is_xml": True, "scenarios": []}
    # Files in the checkout itself run whole; those of an experiment have dozens of scenarios.
    stop_s = None if pair.device.parent == given.checkout else given.stop_s
    ended = False
    for number, scenario, doubles in scenarios_of(pair):
        own_stop_s = stop_seconds(scenario)
        row: dict[str, Any] = {"number": number, "doubles": doubles, "shipped_s": own_stop_s}
        row["run_s"] = min(own_stop_s, stop_s) if stop_s else own_stop_s
        row["mqsim"], row["nandlab"] = [], []
        record["scenarios"].append(row)
        if missing := missing_trace(scenario, pair, given.checkout):
            row["missing_trace"] = missing
            continue
        for run in range(given.runs):
            with tempfile.TemporaryDirectory(prefix="mqsim-page-") as name:
                step = run * SEED_STEP
                copies = write_copies(
                    pair, given.checkout, number, Path(name), seed_step=step, stop_s=stop_s
                )
                row["mqsim"].append(_told(run_mqsim, given.binary, *copies, given.limit_s))
                # MQSim that fails leaves the rest of its file, so the comparison ends with it.
                ended = isinstance(row["mqsim"][-1], str)
                row["nandlab"].append(_told(run_nandlab, given.nandlab, *copies))
            if ended:
                break
        print(f"{pair.name}: scenario {number} is done", file=sys.stderr, flush=True)
        if ended:
            break
    return record


def _told(run: Any, *arguments: Any) -> dict[str, Any] | str:
    """What a run counted, or why there was none."""
    try:
        return as_record(run(*arguments))
    except ComparisonError as error:
        return str(error)


def _commit(folder: Path) -> str:
    words = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    found = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
    return f"commit {found.stdout.strip() or 'unknown'}"


def conditions(given: argparse.Namespace) -> dict[str, str]:
    """What ran, and where."""
    version = subprocess.run(
        [given.nandlab, "--version"], capture_output=True, encoding="utf-8", check=False
    )
    processor = platform.machine()
    about = Path("/proc/cpuinfo")
    if about.is_file():
        names = [
            line
            for line in about.read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ]
        processor = names[0].split(":")[1].strip() if names else processor
    return {
        "MQSim": _commit(given.checkout),
        "nandlab": f"{version.stdout.strip() or 'unknown'}, {_commit(ROOT)}",
        "machine": f"{os.cpu_count()} cores ({processor}), load average {os.getloadavg()[0]:.0f} "
        "at the end",
        "runs": f"{given.runs} of each scenario, in turns; figures are medians",
        "seeds": f"the shipped ones, then {SEED_STEP:,} more from run to run, of device and flows",
    }


def write_page() -> None:
    """Makes the page of the record."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    PAGE.write_text(page(record), encoding="utf-8")


def _fail(reason: str) -> NoReturn:
    print(f"mqsim_page.py: error: {reason}", file=sys.stderr)
    sys.exit(2)


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="mqsim_page.py", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "what", choices=("run", "page"), help="run all, or only make the page again"
    )
    parser.add_argument("--mqsim", default=os.environ.get("MQSIM"), help="MQSim's checkout")
    parser.add_argument("--runs", type=int, default=3, help="runs of each scenario")
    parser.add_argument(
        "--stop-s", type=float, default=1.0, help="longest simulated time of a flow"
    )
    parser.add_argument("--limit-s", type=int, default=600, help="processor seconds of MQSim's run")
    parser.add_argument("--only", help="only files whose names hold this text; makes no record")
    parser.add_argument("--nandlab", help="the command nandlab")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> None:
    """The command; ends with status 2 and one line if there is nothing to compare."""
    given = _arguments(words)
    if given.what == "page":
        write_page()
        return
    if not given.mqsim:
        _fail("set MQSIM to a checkout of MQSim with its program; nothing is fetched or built")
    given.checkout = Path(given.mqsim).resolve()
    given.binary = given.checkout / "MQSim"
    if not (given.binary.is_file() and os.access(given.binary, os.X_OK)):
        _fail(f"{given.mqsim} has no program MQSim that can be run; build it there")
    if given.runs < 1 or given.stop_s <= 0 or given.limit_s < 1:
        _fail("--runs and --limit-s must be at least 1, --stop-s above 0")
    beside = ROOT / ".venv/bin/nandlab"
    given.nandlab = given.nandlab or (str(beside) if beside.exists() else shutil.which("nandlab"))
    if given.nandlab is None:
        _fail("the command nandlab was not found; build it with `make build`, or use --nandlab")
    chosen = [pair for pair in pairs(given.checkout) if (given.only or "") in pair.name]
    if not chosen:
        _fail(
            f"{given.mqsim} has no ssdconfig*.xml with a workload*.xml beside it that is asked for"
        )
    record: dict[str, Any] = {"files": [compare_pair(pair, given) for pair in chosen]}
    record["experiments"] = (
        [] if given.only
        else run_experiments(given.checkout, given.binary, given.nandlab, given.limit_s)
    )  # fmt: skip
    record["conditions"] = conditions(given)
    if given.only:
        print(page(record), end="")
        return
    RECORD.write_text(json.dumps(record, separators=(",", ":")) + "\n", encoding="utf-8")
    write_page()


if __name__ == "__main__":
    main(sys.argv[1:])
