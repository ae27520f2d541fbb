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
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mutants_page
from mutants_page import Result, results_of

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = ROOT / "scripts" / "mutants.toml"
WORK = ROOT / "target" / "mutants"
TREE = WORK / "tree"
RESULTS = WORK / "results"
CARGO_MUTANTS = ROOT / "target" / "tools" / "bin" / "cargo-mutants"

# A mutant that makes a loop endless is stopped after so many times what the tests take without it.
TIMEOUT_FACTOR = 5
TIMEOUT_MIN_S = 20.0
MEMORY_MAX_BYTES = 4 << 30


@dataclass(frozen=True)
class Mutant:
    """A fault, as cargo-mutants lists it."""

    crate: str
    file: str
    # Place and what is replaced by what, in one line.
    name: str
    start: tuple[int, int]
    end: tuple[int, int]
    replacement: str
    # Where its function stands, with comments and attributes; none outside of functions.
    function: tuple[tuple[int, int], tuple[int, int]] | None

    @property
    def key(self) -> str:
        """The mutant without its place: what stays the same when lines above it change."""
        return self.file + ": " + self.name.split(": ", 1)[-1]


def _place(position: dict[str, int]) -> tuple[int, int]:
    return position["line"], position["column"]


def _mutant(entry: dict[str, Any]) -> Mutant:
    function = (entry.get("function") or {}).get("span")
    return Mutant(
        crate=entry["package"],
        file=entry["file"],
        name=entry["name"],
        start=_place(entry["span"]["start"]),
        end=_place(entry["span"]["end"]),
        replacement=entry["replacement"],
        function=function and (_place(function["start"]), _place(function["end"])),
    )


def drawn(mutants: list[Mutant], seed: str, sample: int | None) -> list[Mutant]:
    """The mutants that a seed draws, by the hash of their names: the same on every machine."""

    def rank(mutant: Mutant) -> str:
        return hashlib.sha256(f"{seed}\0{mutant.key}\0{mutant.start}".encode()).hexdigest()

    return sorted(mutants, key=rank)[:sample]


class Source:
    """The text of a file, addressed by lines and columns as cargo-mutants counts them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0]
        for line in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def at(self, place: tuple[int, int]) -> int:
        """The offset of a place."""
        return self.starts[place[0] - 1] + place[1] - 1

    def planted(self, mutant: Mutant, begin: int = 0, end: int | None = None) -> str:
        """A part of the text with the mutant in it."""
        start, stop = self.at(mutant.start), self.at(mutant.end)
        return self.text[begin:start] + mutant.replacement + self.text[stop:end]

    def body(self, mutant: Mutant) -> tuple[int, int] | None:
        """The body of its function with the braces; none if it cannot be chosen at run time."""
        if mutant.function is None:
            return None
        begin, end = (self.at(place) for place in mutant.function)
        head = HEAD_OF_FUNCTION.match(self.text, begin, end)
        if head is None or "const" in head["qualifiers"].split():
            return None
        depth = 0
        for at in range(head.end(), end):
            letter = self.text[at]
            depth += (letter in "([") - (letter in ")]")
            if letter == "{" and depth == 0:
                is_opaque = "impl " in self.text[head.end() : at].rpartition(")")[2]
                return None if is_opaque else (at, end)
        return None


# Comments and attributes, then what stands before the name.
HEAD_OF_FUNCTION = re.compile(
    r"(?:\s|//[^\n]*\n|#\[(?:[^\]\[]|\[[^\]]*\])*\])*(?P<qualifiers>(?:[\w()\"]+\s+)*?)fn\s+\w+"
)

SWITCH = """
/// The number of the planted fault.
#[allow(dead_code)]
pub(crate) fn planted_fault() -> u32 {
    static NUMBER: std::sync::LazyLock<u32> = std::sync::LazyLock::new(|| {
        std::env::var("NANDLAB_MUTANT").map_or(0, |number| number.parse().expect("a number"))
    });
    *NUMBER
}
"""


def schema(source: Source, mutants: dict[int, Mutant]) -> tuple[str, dict[int, tuple[int, int]]]:
    """The text with all these mutants, and the bytes of it that each takes, by its number."""
    by_body: dict[tuple[int, int], list[int]] = {}
    for number, mutant in mutants.items():
        body = source.body(mutant)
        assert body is not None, mutant.name
        by_body.setdefault(body, []).append(number)
    text, places, done = "", {}, 0
    for (begin, end), numbers in sorted(by_body.items()):
        assert begin >= done, "functions in functions are planted one by one"
        text += source.text[done:begin] + "{ match crate::planted_fault() {\n"
        for number in numbers:
            start = len(text.encode())
            text += f"{number} => " + source.planted(mutants[number], begin, end) + "\n"
            places[number] = (start, len(text.encode()))
        text += "_ => " + source.text[begin:end] + "\n} }"
        done = end
    return text + source.text[done:], places


class Workspace:
    """The copy that mutants are planted in, and the cargo that builds it."""

    def __init__(self) -> None:
        self.environment = os.environ | {
            "CARGO_TARGET_DIR": str(WORK / "build"),
            "CARGO_TERM_COLOR": "never",
            "PROPTEST_RNG_SEED": "1",
            "PROPTEST_FAILURE_PERSISTENCE": "off",
            "NANDLAB_FUZZ_SECONDS": "1",
            "RUST_BACKTRACE": "0",
        }

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
            source, target = ROOT / name, TREE / name
            if source.is_file() and not (target.is_file() and _same(source, target)):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        for path in sorted(TREE.rglob("*")):
            if path.is_file() and str(path.relative_to(TREE)) not in wanted:
                path.unlink()

    def list_mutants(self, crate: str) -> list[Mutant]:
        """All mutants of a crate, in the order of the list."""
        command = [str(CARGO_MUTANTS), "mutants", "--list", "--json", "--package", crate]
        listed = subprocess.run(
            command, cwd=TREE, check=True, capture_output=True, encoding="utf-8"
        )
        return [_mutant(entry) for entry in json.loads(listed.stdout)]

    def cargo(self, *arguments: str) -> tuple[bool, list[dict[str, Any]]]:
        """Runs cargo; whether all went well, and its messages."""
        command = ["cargo", *arguments, "--message-format=json", "--quiet"]
        done = subprocess.run(
            command, cwd=TREE, env=self.environment, capture_output=True, encoding="utf-8"
        )
        messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return done.returncode == 0, messages

    def errors(self, crate: str) -> list[dict[str, Any]]:
        """What the compiler says against the crate."""
        is_well, messages = self.cargo("check", "-p", crate, "--lib")
        found = [message["message"] for message in messages if "message" in message]
        found = [message for message in found if message["level"] == "error"]
        if not is_well and not found:
            raise SystemExit(f"{crate} cannot be checked: cargo tells no error")
        return found

    def programs(self, crate: str) -> list[Path]:
        """Builds the test programs."""
        is_well, messages = self.cargo("test", "-p", crate, "--tests", "--no-run")
        built = [message.get("executable") for message in messages]
        if not is_well:
            raise SystemExit(f"the tests of {crate} do not build")
        return [Path(path) for path in built if path]

    def failure(
        self, crate: str, programs: list[Path], arguments: list[str], number: int, limit_s: float
    ) -> str | None:
        """Runs tests until one fails; its name, or none if none does."""
        end_s = time.monotonic() + limit_s
        for program in programs:
            failed = self._failure_of(crate, program, arguments, number, end_s - time.monotonic())
            if failed:
                return failed
        return None

    def _failure_of(
        self, crate: str, program: Path, arguments: list[str], number: int, limit_s: float
    ) -> str | None:
        folder = TREE / "crates" / crate
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

    def __init__(self, workspace: Workspace, crate: str, settings: dict[str, Any]) -> None:
        self.workspace, self.crate = workspace, crate
        own = settings["crates"][crate]
        self.seed: str = settings["seed"]
        self.sample: int | None = None if own["sample"] == "all" else own["sample"]
        self.tiers: list[list[str]] = [*own.get("quick", []), []]
        self.limits_s: dict[int, float] = {}
        self.sources: dict[str, Source] = {}
        self.total = 0
        self.done = 0

    def run(self, hours: float, again: bool) -> None:
        """Tries the mutants that are not known yet; with `again` those that survived, too."""
        self.end_s = time.monotonic() + hours * 3600
        listed = self.workspace.list_mutants(self.crate)
        wanted = drawn(listed, self.seed, self.sample)
        for file in {mutant.file for mutant in wanted}:
            self.sources[file] = Source((TREE / file).read_text(encoding="utf-8"))
        RESULTS.mkdir(parents=True, exist_ok=True)
        head = {"listed": len(listed), "drawn": [mutant.name for mutant in wanted]}
        (RESULTS / f"{self.crate}.json").write_text(json.dumps(head), encoding="utf-8")
        known = results_of(RESULTS, self.crate)

        def is_open(mutant: Mutant) -> bool:
            old = known.get(mutant.name)
            is_known = old is not None and old.source == self._stamp(mutant)
            return not is_known or (again and old is not None and old.outcome == "survived")

        numbered = {number: mutant for number, mutant in enumerate(wanted, 1) if is_open(mutant)}
        self.total = len(numbered)
        if numbered:
            together = self._apart(numbered)
            if together:
                self._try_together(together)
            else:
                # Faults that are planted alone have the number 0: the limits are measured before.
                programs = self.workspace.programs(self.crate)
                for tier in range(len(self.tiers)):
                    self._limit_s(tier, programs)
            for number in sorted(numbered.keys() - together.keys()):
                self._try_alone(numbered[number])

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
            if failed := self.workspace.failure(self.crate, programs, arguments, 0, 3600.0):
                raise SystemExit(f"{self.crate}: {failed} fails without any mutant")
            seconds = time.monotonic() - begin_s
            self._say(f"{' '.join(arguments) or 'all tests'}: {seconds:.0f} s without a mutant")
            self.limits_s[tier] = max(TIMEOUT_MIN_S, TIMEOUT_FACTOR * seconds)
        return self.limits_s[tier]

    def _say(self, text: str) -> None:
        print(f"{self.crate}: {text}", flush=True)

    def _try_together(self, together: dict[int, Mutant]) -> None:
        root = TREE / "crates" / self.crate / "src" / "lib.rs"
        lib = Source(root.read_text(encoding="utf-8"))
        touched = {TREE / mutant.file for mutant in together.values()} | {root}
        before = {path: path.read_text(encoding="utf-8") for path in touched}
        try:
            self._drop_unviable(together, root, lib)
            programs = self.workspace.programs(self.crate)
        finally:
            for path, text in before.items():
                path.write_text(text, encoding="utf-8")
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
                (TREE / file).write_text(
                    text + (SWITCH if TREE / file == root else ""), encoding="utf-8"
                )
            if str(root.relative_to(TREE)) not in places:
                root.write_text(lib.text + SWITCH, encoding="utf-8")
            refused: dict[int, str] = {}
            errors = self.workspace.errors(self.crate)
            for error in errors:
                for span in error["spans"]:
                    for number, (start, end) in places.get(span["file_name"], {}).items():
                        if start <= span["byte_start"] < end:
                            refused.setdefault(number, error["message"])
            if not errors:
                return
            if not refused:
                raise SystemExit(f"{self.crate} does not compile: {errors[0]['rendered']}")
            for number, why in refused.items():
                self._note(together.pop(number), "unviable", why, 0.0)

    def _try_alone(self, mutant: Mutant) -> None:
        path = TREE / mutant.file
        try:
            path.write_text(self.sources[mutant.file].planted(mutant), encoding="utf-8")
            if errors := self.workspace.errors(self.crate):
                self._note(mutant, "unviable", errors[0]["message"], 0.0)
                return
            self._test({0: mutant}, self.workspace.programs(self.crate))
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
                arguments = self.tiers[tier]
                try:
                    by = self.workspace.failure(self.crate, programs, arguments, number, limit_s)
                    outcome = "killed" if by else ""
                except TimeoutError:
                    outcome, by = "timeout", f"after {limit_s:.0f} s"
                if outcome:
                    self._note(mutant, outcome, by or "", round(time.monotonic() - begin_s, 1))
                    del left[number]
            self._say(f"{len(left)} survived {' '.join(self.tiers[tier]) or 'all tests'}")
        for mutant in left.values():
            self._note(mutant, "survived", "", 0.0)

    def _note(self, mutant: Mutant, outcome: str, by: str, seconds: float) -> None:
        self.done += 1
        result = Result(mutant.name, mutant.key, outcome, by, seconds, self._stamp(mutant))
        with (RESULTS / f"{self.crate}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result)) + "\n")
        self._say(f"{self.done}/{self.total} {outcome} {seconds:.1f} s {mutant.name} {by}")


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
        workspace = Workspace()
        workspace.copy()
        for crate in arguments.crates or settings["crates"]:
            Campaign(workspace, crate, settings).run(hours, arguments.again)
    return 0


if __name__ == "__main__":
    sys.exit(main())
