"""Plants faults into crates, and records which run-time assertions fail in the crates' own tests.

All faults of all crates are planted in one build: a copy of the workspace under
`target/assertions`. The variable NANDLAB_MUTANT holds the number of the fault that is present. A
fault adds text within a line, so the place that a panic names is a place of the source. Faults that
the compiler refuses are taken out. Tests that take long without a fault are left out.

A run stops soon after an assertion failed that did not fail before. The faults next to assertions
that did not fail yet are tried first: those of the same function, then of the same file, then of
the same crate.

    scripts/assertion_faults.py build [CRATE ...]    plant the faults and build the test programs
    scripts/assertion_faults.py run [CRATE ...]      try faults until all assertions failed or the
                                                     time is over; goes on where it was stopped
    scripts/assertion_faults.py record               take the results over into docs/assertions.json
    scripts/assertion_faults.py page                 make docs/assertions.md of it
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import assertions_page
import mutants
from assertion_source import ROOT, SWITCH, Fault, RustFile, crates, files_of, planted

WORK = ROOT / "target" / "assertions"
PLAN = WORK / "plan.json"
SHOWN = WORK / "shown.jsonl"
TRIED = WORK / "tried"

# A test that takes longer without a fault is left out.
SLOW_TEST_S = 1.5
# How long the tests of a program may take while they are measured.
MEASURE_S = 15.0
# How often they are measured: each time without those that turned out to be slow.
MEASURES_MAX = 3
# A run ends after so many failed tests, or so many once a new assertion failed.
FAILURES_MAX = 8
FAILURES_AFTER_NEW = 2
RUN_MIN_S = 3.0
RUN_FACTOR = 2.0

PANIC = re.compile(
    r"thread '(?P<thread>[^']*)'.* panicked at (?P<file>crates/[^:]+):(?P<line>\d+):"
)
VERDICT = re.compile(
    r"test (?P<name>\S+)(?: - should panic)? \.\.\. (?P<verdict>ok|FAILED|ignored)"
)


class Tree(mutants.Workspace):
    """The copy of the workspace that the faults of all crates are planted in."""

    def __init__(self) -> None:
        super().__init__("")
        self.tree = WORK / "tree"
        self.environment |= {
            "CARGO_TARGET_DIR": str(WORK / "build"),
            "CARGO_PROFILE_DEV_OPT_LEVEL": "1",
            # The first failure is enough: no smaller example is looked for.
            "PROPTEST_MAX_SHRINK_ITERS": "0",
        }

    def build(self, names: list[str]) -> None:
        """Plants all faults that compile, and builds the test programs of crates."""
        self.copy()
        files = {file.name: file for name in names for file in files_of(name, self.tree)}
        faults: dict[int, tuple[str, Fault]] = {}
        for file in files.values():
            for fault in file.faults():
                faults[len(faults) + 1] = (file.name, fault)
        print(f"{len(faults)} faults", flush=True)
        try:
            self._drop_refused(names, files, faults)
            programs = self._test_programs(names)
        finally:
            for file in files.values():
                (self.tree / file.name).write_text(file.text, encoding="utf-8")
        plan = {
            "digests": {file.name: _digest(file.text) for file in files.values()},
            "programs": programs,
            "faults": {
                str(number): {
                    "file": name,
                    "kind": fault.kind,
                    "line": files[name].line(fault.start),
                    "text": files[name].line_text(fault.start),
                    "function": _function(files[name], fault.start),
                }
                for number, (name, fault) in faults.items()
            },
        }
        # The numbers of the faults are new.
        shutil.rmtree(TRIED, ignore_errors=True)
        PLAN.write_text(json.dumps(plan), encoding="utf-8")

    def _plant(
        self, files: dict[str, RustFile], faults: dict[int, tuple[str, Fault]]
    ) -> dict[str, dict[int, list[tuple[int, int]]]]:
        places = {}
        for name, file in files.items():
            own = {number: fault for number, (where, fault) in faults.items() if where == name}
            text, places[name] = planted(file.text, own)
            if name.endswith("src/lib.rs"):
                text += SWITCH
            path = self.tree / name
            if path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
        return places

    def _drop_refused(
        self, names: list[str], files: dict[str, RustFile], faults: dict[int, tuple[str, Fault]]
    ) -> None:
        """Takes faults out until the compiler refuses none."""
        packages = [argument for name in names for argument in ("-p", name)]
        while True:
            places = self._plant(files, faults)
            is_well, messages = self.cargo("check", "--lib", "--keep-going", *packages)
            errors = [
                message["message"]
                for message in messages
                if message.get("message", {}).get("level") == "error"
            ]
            if is_well:
                return
            refused = {number for error in errors for number in _refused(error, places, files)}
            if not refused:
                texts = "\n".join(error["rendered"] for error in errors[:5])
                raise SystemExit(f"the crates do not compile\n{texts}")
            print(f"{len(errors)} errors, {len(refused)} faults are taken out", flush=True)
            for number in refused:
                del faults[number]

    def _test_programs(self, names: list[str]) -> dict[str, list[str]]:
        """The test programs of crates, by crate."""
        packages = [argument for name in names for argument in ("-p", name)]
        is_well, messages = self.cargo("test", "--tests", "--no-run", *packages)
        if not is_well:
            texts = [m["message"]["rendered"] for m in messages if "message" in m]
            raise SystemExit("the tests do not build\n" + "\n".join(texts[-5:]))
        found: dict[str, list[str]] = {}
        for message in messages:
            if message.get("executable") and message["profile"]["test"]:
                name = Path(message["manifest_path"]).parent.name
                found.setdefault(name, []).append(message["executable"])
        return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _function(file: RustFile, at: int) -> str:
    """The innermost function around a place: its name and its line."""
    function = file.function(at)
    return f"{function.name}:{file.line(function.start)}" if function else ""


def _refused(
    error: dict[str, Any],
    places: dict[str, dict[int, list[tuple[int, int]]]],
    files: dict[str, RustFile],
) -> set[int]:
    """The faults that an error of the compiler is due to."""
    touched: set[int] = set()
    around: list[tuple[int, int]] = []
    lines: dict[str, set[int]] = {}
    for span in _spans(error):
        own = places.get(span["file_name"], {})
        begin, end = span["byte_start"], span["byte_end"]
        for number, pieces in own.items():
            if any(start < end and begin < stop for start, stop in pieces):
                touched.add(number)
            first, last = pieces[0][0], pieces[-1][1]
            if first <= begin < last:
                around.append((last - first, number))
        lines.setdefault(span["file_name"], set()).add(span["line_start"])
    if touched or around:
        return touched or {min(around)[1]}
    # The error stands elsewhere: all faults of the function around it are taken out.
    found = set()
    for name, rows in lines.items():
        if name not in places:
            continue
        file = files[name]
        for row in rows:
            function = file.function(file.line_starts[row] - 2)
            if function:
                text_before = file.text[: function.start]
                # Added text only moves bytes on: lines tell which faults are in the function.
                first, last = text_before.count("\n") + 1, file.line(function.end)
                found |= {
                    number
                    for number, line in _lines_of(places[name], file).items()
                    if first <= line <= last
                }
    return found


def _lines_of(places: dict[int, list[tuple[int, int]]], file: RustFile) -> dict[int, int]:
    """The lines of faults, by their numbers."""
    starts = [0]
    added = sorted((start, stop) for pieces in places.values() for start, stop in pieces)
    for line in file.text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    found = {}
    for number, pieces in places.items():
        at = pieces[0][0]
        at -= sum(stop - start for start, stop in added if stop <= at)
        found[number] = sum(start <= at for start in starts)
    return found


def _spans(error: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for span in error["spans"]:
        yield span
        while (span := (span.get("expansion") or {}).get("span")) is not None:
            yield span


class Record:
    """The assertions that failed so far; used by several threads."""

    def __init__(self, names: list[str]) -> None:
        found = [
            (name, assertion)
            for name in names
            for file in files_of(name)
            for assertion in file.assertions()
        ]
        self.by_place = {(one.file, one.line): one.key for _, one in found}
        self.crate_of = {one.key: name for name, one in found}
        self.places: dict[str, list[tuple[str, int]]] = {name: [] for name in names}
        for name, one in found:
            self.places[name].append((one.file, one.line))
        self.shown: set[str] = set()
        self.lock = threading.Lock()
        if SHOWN.exists():
            for line in SHOWN.read_text(encoding="utf-8").splitlines():
                self.shown.add(json.loads(line)["assertion"])

    def open_places(self, crate: str) -> list[tuple[str, int]]:
        """Where the assertions of a crate are that did not fail yet."""
        with self.lock:
            return [at for at in self.places[crate] if self.by_place[at] not in self.shown]

    def note(self, at: tuple[str, int], fault: dict[str, Any] | None, test: str) -> bool:
        """Records that the assertion at a place failed; whether that is new."""
        key = self.by_place.get(at)
        with self.lock:
            if key is None or key in self.shown:
                return False
            self.shown.add(key)
            entry = {"assertion": key, "crate": self.crate_of[key], "test": test}
            if fault:
                entry |= {"file": fault["file"], "line": fault["text"], "fault": fault["kind"]}
            with SHOWN.open("a", encoding="utf-8") as out:
                out.write(json.dumps(entry) + "\n")
            return True


class Campaign:
    """The faults and the tests of one crate."""

    def __init__(self, crate: str, plan: dict[str, Any], record: Record, tree: Tree) -> None:
        self.crate, self.record, self.tree = crate, record, tree
        self.folder = next(tree.tree.glob(f"crates/*/{crate}"))
        self.programs = [Path(path) for path in plan["programs"].get(crate, [])]
        inside = f"{self.folder.relative_to(tree.tree)}/"
        self.faults = {
            int(number): fault
            for number, fault in plan["faults"].items()
            if fault["file"].startswith(inside)
        }
        self.files = {file.name: file for file in files_of(crate)}
        self.arguments: dict[Path, list[str]] = {}
        self.limits_s: dict[Path, float] = {}
        self.tried: set[int] = set()

    def run(self, budget_s: float) -> None:
        """Tries faults until all assertions failed, or the time is over."""
        end_s = time.monotonic() + budget_s
        for program in self.programs:
            self._measure(program)
        path = TRIED / f"{self.crate}.json"
        if path.exists():
            self.tried = set(json.loads(path.read_text(encoding="utf-8")))
        begun = len(self.tried)
        try:
            while time.monotonic() < end_s and (number := self._next()) is not None:
                self.tried.add(number)
                for program in self.programs:
                    self._try(program, number)
        finally:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(sorted(self.tried)), encoding="utf-8")
        everything = len(self.record.places[self.crate])
        still_open = len(self.record.open_places(self.crate))
        print(
            f"{self.crate}: {everything - still_open} of {everything} assertions failed;"
            f" {len(self.tried) - begun} of {len(self.faults)} faults tried now",
            flush=True,
        )

    def _measure(self, program: Path) -> None:
        """Finds the tests that take long, and runs the others without a fault."""
        listed = subprocess.run(
            [str(program), "--list"],
            cwd=self.folder,
            env=self._environment(0),
            capture_output=True,
            encoding="utf-8",
        ).stdout
        names = [line[:-6] for line in listed.splitlines() if line.endswith(": test")]
        slow: list[str] = []
        for _ in range(MEASURES_MAX):
            arguments = ["--exact", *(word for name in slow for word in ("--skip", name))]
            begin_s = time.monotonic()
            ended_s: dict[str, float] = {}
            lasted: list[str] = []
            for line in self._lines(program, arguments, 0, MEASURE_S):
                if panic := PANIC.search(line):
                    at = (panic["file"], int(panic["line"]))
                    self.record.note(at, None, panic["thread"])
                for verdict in VERDICT.finditer(line):
                    now_s = time.monotonic()
                    # Two tests run at a time.
                    before_s = [begin_s, begin_s, *ended_s.values()][-2]
                    if now_s - before_s > SLOW_TEST_S:
                        lasted.append(verdict["name"])
                    ended_s[verdict["name"]] = now_s
            total_s = time.monotonic() - begin_s
            left = [name for name in names if name not in ended_s and name not in slow]
            # Those after the two that were running were not reached.
            slow += lasted + left[:2] if left and total_s > MEASURE_S - 1 else lasted
            if not lasted and total_s < MEASURE_S - 1:
                break
        else:
            slow += left[2:] if left else []
        self.arguments[program] = ["--exact", *(w for name in slow for w in ("--skip", name))]
        self.limits_s[program] = max(RUN_MIN_S, RUN_FACTOR * min(total_s, MEASURE_S))
        print(
            f"{self.crate}: {program.stem}: {len(names) - len(slow)} of {len(names)} tests in"
            f" {total_s:.1f} s",
            flush=True,
        )

    def _environment(self, number: int) -> dict[str, str]:
        own = {"NANDLAB_MUTANT": str(number), "CARGO_MANIFEST_DIR": str(self.folder)}
        return self.tree.environment | own

    def _lines(
        self, program: Path, arguments: list[str], number: int, limit_s: float
    ) -> Iterator[str]:
        """What the tests print, until they end or the time is over."""
        child = subprocess.Popen(
            [str(program), "--nocapture", "--test-threads=2", *arguments],
            cwd=self.folder,
            env=self._environment(number),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
            preexec_fn=mutants._bound_memory,
        )
        clock = threading.Timer(limit_s, mutants._end, [child])
        clock.start()
        assert child.stdout is not None
        try:
            yield from child.stdout
        finally:
            clock.cancel()
            mutants._end(child)
            child.stdout.close()
            child.wait()

    def _try(self, program: Path, number: int) -> None:
        """Runs the tests with a fault."""
        failures = 0
        most = FAILURES_MAX
        lines = self._lines(program, self.arguments[program], number, self.limits_s[program])
        for line in lines:
            if panic := PANIC.search(line):
                at = (panic["file"], int(panic["line"]))
                if self.record.note(at, self.faults[number], panic["thread"]):
                    most = min(most, failures + FAILURES_AFTER_NEW)
            failures += line.count("FAILED")
            if failures >= most:
                break
        lines.close()  # type: ignore[attr-defined]

    def _next(self) -> int | None:
        """The fault to try next."""
        places = self.record.open_places(self.crate)
        if not places:
            return None
        functions = {
            (name, _function(file, file.line_starts[line - 1]))
            for name, line in places
            if (file := self.files.get(name))
        }
        open_files = {name for name, _ in places}

        def rank(number: int) -> tuple[int, str]:
            fault = self.faults[number]
            chance = hashlib.sha256(f"{fault['file']}{fault['text']}{number}".encode()).hexdigest()
            if (fault["file"], fault["function"]) in functions:
                distance = 0
            else:
                distance = 1 if fault["file"] in open_files else 2
            # Every third trial takes any fault of the crate.
            return (0 if len(self.tried) % 3 == 2 else distance, chance)

        return min((n for n in self.faults if n not in self.tried), key=rank, default=None)


def _run(names: list[str], budget_s: float) -> None:
    if not PLAN.exists():
        raise SystemExit("nothing is planted yet: build first")
    plan = json.loads(PLAN.read_text(encoding="utf-8"))
    for name, digest in plan["digests"].items():
        if _digest((ROOT / name).read_text(encoding="utf-8")) != digest:
            raise SystemExit(f"{name} changed since the faults were planted: build again")
    names = [name for name in names if plan["programs"].get(name)]
    record, tree = Record(crates()), Tree()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        trials = [Campaign(name, plan, record, tree) for name in names]
        for done in [pool.submit(trial.run, budget_s) for trial in trials]:
            done.result()


def main() -> int:
    """Does what the command line asks for."""
    parser = argparse.ArgumentParser(description="Plant faults, and see which assertions fail.")
    subparsers = parser.add_subparsers(dest="command", required=True)
    for command, text in (("build", "plant, and build the tests"), ("run", "try the faults")):
        subparser = subparsers.add_parser(command, help=text)
        subparser.add_argument("crates", nargs="*", help="crates; all if none is named")
        if command == "run":
            subparser.add_argument(
                "--seconds", type=float, default=600.0, help="most seconds a crate"
            )
    subparsers.add_parser("record", help="take the results over into docs/assertions.json")
    subparsers.add_parser("page", help="make docs/assertions.md")
    arguments = parser.parse_args()
    if arguments.command == "record":
        assertions_page.record(SHOWN, TRIED)
    elif arguments.command == "page":
        assertions_page.write_page()
    else:
        unknown = [name for name in arguments.crates if name not in crates()]
        if unknown:
            parser.error(f"no crate {unknown[0]!r} in {', '.join(crates())}")
        names = arguments.crates or crates()
        if arguments.command == "build":
            Tree().build(names)
        else:
            _run(names, arguments.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
