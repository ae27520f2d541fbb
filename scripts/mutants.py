"""Plants faults into crates, one at a time, and sees whether the crate's own tests notice.

cargo-mutants lists the faults (`--list --json`); this program draws some by a named seed and
plants them in a copy of the workspace under `target/mutants`. A build takes far longer than most
tests, so all faults of a crate are planted together: each function with faults becomes a `match`
over the number that the variable NANDLAB_MUTANT holds, with a copy of its body for each fault. Few
functions cannot be written so (`const fn`, `-> impl Trait`); their faults are planted alone.

The quick tests come first, the others only for faults that survive those. The first test that
fails ends a run, since libtest itself would go on. What is done is kept in
`target/mutants/results`, so a run that was stopped goes on where it was; faults of a file that
changed are tried anew.

    scripts/mutants.py run [CRATE ...]    plant and test; all crates of scripts/mutants.toml if
                                          none is named
    scripts/mutants.py record             take the results over into docs/mutants.json
    scripts/mutants.py page               make docs/mutants.md of docs/mutants.json
"""

import argparse
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import mutants_page
from mutants_page import OPEN, Result, results_of
from mutants_plant import SWITCH, Mutant, Source, drawn, mutant_of, schema

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = ROOT / "scripts" / "mutants.toml"
WORK = ROOT / "target" / "mutants"
# A copy and a build for each crate: faults that are planted in one must not make those above it be
# built anew, and cargo tells the crates of two copies apart by the times of their files alone.
TREES = WORK / "trees"
BUILDS = WORK / "builds"
KEPT = WORK / "kept"
RESULTS = WORK / "results"
CARGO_MUTANTS = ROOT / "target" / "tools" / "bin" / "cargo-mutants"

# A mutant that makes a loop endless is stopped after so many times what the tests take without it.
TIMEOUT_FACTOR = 5
TIMEOUT_MIN_S = 20.0
MEMORY_MAX_BYTES = 4 << 30
# A type that lacks a trait, operator or method: the compiler says so wherever the fault stands.
# What it says of borrows and types may be due to the other faults, and such a fault is tried alone.
REFUSED_ANYWHERE = ("E0277", "E0368", "E0369", "E0599")


class Workspace:
    """The copy that mutants are planted in, and the cargo that builds it."""

    def __init__(self, crate: str) -> None:
        self.crate, self.tree = crate, TREES / crate
        self.environment = os.environ | {
            "CARGO_TARGET_DIR": str(BUILDS / crate),
            "CARGO_TERM_COLOR": "never",
            # Nobody steps through these programs; without line tables they link faster.
            "CARGO_PROFILE_DEV_DEBUG": "0",
            "PROPTEST_RNG_SEED": "1",
            "PROPTEST_FAILURE_PERSISTENCE": "off",
            "NANDLAB_FUZZ_SECONDS": "1",
            "RUST_BACKTRACE": "0",
        }

    def folder(self) -> Path:
        """Where the crate is in the copy: crates lie in folders, one a layer."""
        return next(self.tree.glob(f"crates/*/{self.crate}"))

    def copy(self) -> None:
        """Brings the copy to the state of the tree; files that are the same keep their times."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
        ).stdout
        wanted = {os.fsdecode(name) for name in listed.split(b"\0") if name}
        for name in sorted(wanted):
            source, target = ROOT / name, self.tree / name
            if source.is_file() and not (target.is_file() and _same(source, target)):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        for path in sorted(self.tree.rglob("*")):
            if path.is_file() and str(path.relative_to(self.tree)) not in wanted:
                path.unlink()

    def list_mutants(self) -> list[Mutant]:
        """All mutants of a crate, in the order of the list."""
        command = [str(CARGO_MUTANTS), "mutants", "--list", "--json", "--package", self.crate]
        listed = subprocess.run(
            command, cwd=self.tree, check=True, capture_output=True, encoding="utf-8"
        )
        return [mutant_of(entry) for entry in json.loads(listed.stdout)]

    def cargo(self, *arguments: str) -> tuple[bool, list[dict[str, Any]]]:
        """Runs cargo; whether all went well, and its messages."""
        command = ["cargo", *arguments, "--message-format=json", "--quiet"]
        done = subprocess.run(
            command, cwd=self.tree, env=self.environment, capture_output=True, encoding="utf-8"
        )
        messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return done.returncode == 0, messages

    def errors(self) -> list[dict[str, Any]]:
        """What the compiler says against the crate."""
        is_well, messages = self.cargo("check", "-p", self.crate, "--lib")
        found = [message["message"] for message in messages if "message" in message]
        found = [message for message in found if message["level"] == "error"]
        if not is_well and not found:
            raise SystemExit(f"{self.crate} cannot be checked: cargo tells no error")
        return found

    def programs(self) -> list[Path]:
        """Builds the test programs."""
        is_well, messages = self.cargo("test", "-p", self.crate, "--tests", "--no-run")
        built = [message.get("executable") for message in messages]
        if not is_well:
            texts = [m["message"]["rendered"] for m in messages if "message" in m]
            raise SystemExit(f"the tests of {self.crate} do not build\n" + "\n".join(texts))
        return [Path(path) for path in built if path]

    def _state(self) -> str:
        """What the programs are built of."""
        digest = hashlib.sha256()
        for path in sorted(self.tree.rglob("*")):
            if path.is_file():
                digest.update(str(path).encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()

    def keep(self, programs: list[Path], planted: list[int]) -> None:
        """Lays programs aside, which the next build would replace."""
        folder = KEPT / self.crate
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        names = [Path(shutil.copy2(program, folder)).name for program in programs]
        record = {"state": self._state(), "planted": planted, "programs": names}
        (folder / "record.json").write_text(json.dumps(record), encoding="utf-8")

    def kept(self) -> tuple[list[Path], set[int]]:
        """Programs that were laid aside, and their mutants; none if something changed since."""
        path = KEPT / self.crate / "record.json"
        if not path.exists():
            return [], set()
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["state"] != self._state():
            return [], set()
        return [path.with_name(name) for name in record["programs"]], set(record["planted"])

    def failure(
        self, programs: list[Path], arguments: list[str], number: int, limit_s: float
    ) -> str | None:
        """Runs tests until one fails; its name, or none if none does."""
        end_s = time.monotonic() + limit_s
        for program in programs:
            failed = self._failure_of(program, arguments, number, end_s - time.monotonic())
            if failed:
                return failed
        return None

    def _failure_of(
        self, program: Path, arguments: list[str], number: int, limit_s: float
    ) -> str | None:
        folder = self.folder()
        child = subprocess.Popen(
            [str(program), *arguments],
            cwd=folder,
            env=self.environment
            | {"NANDLAB_MUTANT": str(number), "CARGO_MANIFEST_DIR": str(folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            start_new_session=True,
            preexec_fn=_bound_memory,
        )
        is_over = threading.Event()

        def ring() -> None:
            is_over.set()
            _end(child)

        clock = threading.Timer(max(limit_s, 1.0), ring)
        clock.start()
        failed = None
        assert child.stdout is not None
        for line in child.stdout:
            words = line.split()
            if words[:1] == ["test"] and words[-1:] == ["FAILED"]:
                failed = " ".join(words[1:-2])
                break
        clock.cancel()
        if failed is not None:
            _end(child)
        code = child.wait()
        if failed is None and is_over.is_set():
            raise TimeoutError
        return failed or (f"{program.stem} ended with {code}" if code else None)


def _bound_memory() -> None:
    # A mutant that asks for memory without end must not take the machine along.
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX_BYTES, MEMORY_MAX_BYTES))


def _end(child: subprocess.Popen[str]) -> None:
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)


def _same(source: Path, target: Path) -> bool:
    return (
        source.stat().st_size == target.stat().st_size
        and source.read_bytes() == target.read_bytes()
    )


class Campaign:
    """The mutants of one crate."""

    def __init__(self, workspace: Workspace, settings: dict[str, Any]) -> None:
        self.workspace, self.crate = workspace, workspace.crate
        own = settings["crates"][workspace.crate]
        self.seed: str = settings["seed"]
        self.sample: int | None = None if own["sample"] == "all" else own["sample"]
        self.tiers: list[list[str]] = [*own.get("quick", []), []]
        self.limits_s: dict[int, float] = {}
        self.sources: dict[str, Source] = {}
        # What is known of mutants, by their names.
        self.judged: set[str] = set()
        self.tiers_survived: dict[str, int] = {}
        self.total = 0
        self.done = 0

    def run(self, hours: float, again: bool) -> None:
        """Tries the mutants that are not known yet; with `again` those that survived, too."""
        self.end_s = time.monotonic() + hours * 3600
        listed = self.workspace.list_mutants()
        wanted = drawn(listed, self.seed, self.sample)
        for file in {mutant.file for mutant in wanted}:
            self.sources[file] = Source((self.workspace.tree / file).read_text(encoding="utf-8"))
        RESULTS.mkdir(parents=True, exist_ok=True)
        head = {"listed": len(listed), "drawn": [mutant.name for mutant in wanted]}
        (RESULTS / f"{self.crate}.json").write_text(json.dumps(head), encoding="utf-8")
        self._take_up(wanted, again)
        numbered = {n: m for n, m in enumerate(wanted, 1) if m.name not in self.judged}
        self.total = len(numbered)
        if numbered:
            together = self._apart(numbered)
            if together:
                self._try_together(together)
            else:
                # Faults that are planted alone have the number 0: the limits are measured before.
                programs = self.workspace.programs()
                for tier in range(len(self.tiers)):
                    self._limit_s(tier, programs)
            for number in sorted(numbered.keys() - together.keys()):
                is_time = time.monotonic() < self.end_s
                if is_time and numbered[number].name not in self.judged:
                    self._try_alone(numbered[number])

    def _take_up(self, wanted: list[Mutant], again: bool) -> None:
        """What earlier runs know of files that did not change since."""
        known = results_of(RESULTS, self.crate)
        for mutant in wanted:
            old = known.get(mutant.name)
            if old is None or old.source != self._stamp(mutant):
                continue
            if old.outcome == OPEN:
                self.tiers_survived[mutant.name] = 0 if again else int(old.by)
            elif not (again and old.outcome == "survived"):
                self.judged.add(mutant.name)

    def _stamp(self, mutant: Mutant) -> str:
        return hashlib.sha256(self.sources[mutant.file].text.encode()).hexdigest()

    def _apart(self, numbered: dict[int, Mutant]) -> dict[int, Mutant]:
        """The mutants that can be planted together; of nested functions those of the outer."""
        order = []
        for number, mutant in numbered.items():
            body = self.sources[mutant.file].body(mutant)
            if body is not None:
                order.append((mutant.file, body, number))
        together: dict[int, Mutant] = {}
        last = ("", (0, 0))
        for file, body, number in sorted(order):
            if (file, body) == last or file != last[0] or body[0] >= last[1][1]:
                together[number] = numbered[number]
                last = (file, body)
        return together

    def _limit_s(self, tier: int, programs: list[Path]) -> float:
        """How long a tier of tests may take: some times what it takes without a mutant."""
        if tier not in self.limits_s:
            arguments, begin_s = self.tiers[tier], time.monotonic()
            if failed := self.workspace.failure(programs, arguments, 0, 3600.0):
                raise SystemExit(f"{self.crate}: {failed} fails without any mutant")
            seconds = time.monotonic() - begin_s
            self._say(f"{' '.join(arguments) or 'all tests'}: {seconds:.0f} s without a mutant")
            self.limits_s[tier] = max(TIMEOUT_MIN_S, TIMEOUT_FACTOR * seconds)
        return self.limits_s[tier]

    def _say(self, text: str) -> None:
        print(f"{self.crate}: {text}", flush=True)

    def _try_together(self, together: dict[int, Mutant]) -> None:
        """Builds with all of them and tests; a build that was kept serves again."""
        programs, planted = self.workspace.kept()
        if planted:
            for number in together.keys() - planted:
                del together[number]
            self._test(together, programs)
            return
        root = self.workspace.folder() / "src" / "lib.rs"
        lib = Source(root.read_text(encoding="utf-8"))
        touched = {self.workspace.tree / mutant.file for mutant in together.values()} | {root}
        before = {path: path.read_text(encoding="utf-8") for path in touched}
        try:
            self._drop_unviable(together, root, lib)
            programs = self.workspace.programs()
        finally:
            for path, text in before.items():
                path.write_text(text, encoding="utf-8")
        self.workspace.keep(programs, sorted(together))
        self._test(together, programs)

    def _drop_unviable(self, together: dict[int, Mutant], root: Path, lib: Source) -> None:
        """Plants all, and takes those out that the compiler refuses, until it refuses none."""
        # A file whose last mutant is taken out is written as it was.
        files = {mutant.file for mutant in together.values()}
        while True:
            places: dict[str, dict[int, tuple[int, int]]] = {}
            for file in files:
                own = {n: mutant for n, mutant in together.items() if mutant.file == file}
                text, places[file] = schema(self.sources[file], own)
                (self.workspace.tree / file).write_text(
                    text + (SWITCH if self.workspace.tree / file == root else ""), encoding="utf-8"
                )
            if str(root.relative_to(self.workspace.tree)) not in places:
                root.write_text(lib.text + SWITCH, encoding="utf-8")
            refused: dict[int, dict[str, Any]] = {}
            errors = self.workspace.errors()
            for error in errors:
                for span in error["spans"]:
                    for number, (start, end) in places.get(span["file_name"], {}).items():
                        if start <= span["byte_start"] < end:
                            refused.setdefault(number, error)
            if not errors:
                return
            if not refused:
                raise SystemExit(f"{self.crate} does not compile: {errors[0]['rendered']}")
            for number, error in refused.items():
                mutant = together.pop(number)
                if (error["code"] or {}).get("code") in REFUSED_ANYWHERE:
                    self._note(mutant, "unviable", error["message"], 0.0)

    def _try_alone(self, mutant: Mutant) -> None:
        path = self.workspace.tree / mutant.file
        try:
            path.write_text(self.sources[mutant.file].planted(mutant), encoding="utf-8")
            if errors := self.workspace.errors():
                self._note(mutant, "unviable", errors[0]["message"], 0.0)
                return
            self._test({0: mutant}, self.workspace.programs())
        finally:
            path.write_text(self.sources[mutant.file].text, encoding="utf-8")

    def _test(self, planted: dict[int, Mutant], programs: list[Path]) -> None:
        """Tries all by one tier of tests before any meets the next, which takes longer."""
        left = dict(planted)
        for tier in range(len(self.tiers)):
            limit_s = self._limit_s(tier, programs)
            for number, mutant in list(left.items()):
                begin_s = time.monotonic()
                if begin_s > self.end_s:
                    return
                if tier < self.tiers_survived.get(mutant.name, 0):
                    continue
                arguments = self.tiers[tier]
                try:
                    by = self.workspace.failure(programs, arguments, number, limit_s)
                    outcome = "killed" if by else ""
                except TimeoutError:
                    outcome, by = "timeout", f"after {limit_s:.0f} s"
                seconds = round(time.monotonic() - begin_s, 1)
                if outcome:
                    self._note(mutant, outcome, by or "", seconds)
                    del left[number]
                elif tier + 1 < len(self.tiers):
                    self._keep(mutant, OPEN, str(tier + 1), seconds)
            self._say(f"{len(left)} survived {' '.join(self.tiers[tier]) or 'all tests'}")
        for mutant in left.values():
            self._note(mutant, "survived", "", 0.0)

    def _note(self, mutant: Mutant, outcome: str, by: str, seconds: float) -> None:
        self.done += 1
        self.judged.add(mutant.name)
        self._keep(mutant, outcome, by, seconds)
        self._say(f"{self.done}/{self.total} {outcome} {seconds:.1f} s {mutant.name} {by}")

    def _keep(self, mutant: Mutant, outcome: str, by: str, seconds: float) -> None:
        result = Result(mutant.name, mutant.key, outcome, by, seconds, self._stamp(mutant))
        with (RESULTS / f"{self.crate}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result)) + "\n")


def main() -> int:
    """Does what the command line asks for."""
    parser = argparse.ArgumentParser(description="Plant faults, and see whether tests notice.")
    subparsers = parser.add_subparsers(dest="command", required=True)
    run = subparsers.add_parser("run", help="plant and test")
    run.add_argument(
        "crates", nargs="*", help="crates of scripts/mutants.toml; all if none is named"
    )
    run.add_argument("--again", action="store_true", help="try those again that survived")
    run.add_argument("--hours", type=float, help="most hours a crate")
    subparsers.add_parser("record", help="take the results over into docs/mutants.json")
    subparsers.add_parser("page", help="make docs/mutants.md")
    arguments = parser.parse_args()
    settings = tomllib.loads(SETTINGS.read_text(encoding="utf-8"))
    if arguments.command == "record":
        mutants_page.record(settings, RESULTS)
    elif arguments.command == "page":
        mutants_page.write_page()
    else:
        unknown = [crate for crate in arguments.crates if crate not in settings["crates"]]
        if unknown:
            known = ", ".join(settings["crates"])
            parser.error(f"scripts/mutants.toml has no crate {unknown[0]!r}: it has {known}")
        hours = settings["hours"] if arguments.hours is None else arguments.hours
        for crate in arguments.crates or settings["crates"]:
            workspace = Workspace(crate)
            workspace.copy()
            Campaign(workspace, settings).run(hours, arguments.again)
    return 0


if __name__ == "__main__":
    sys.exit(main())
