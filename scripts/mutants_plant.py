"""Faults, and how they are planted: one alone, or all of a file behind a number."""

import hashlib
import re
from dataclasses import dataclass
from typing import Any


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


def mutant_of(entry: dict[str, Any]) -> Mutant:
    """A mutant of the list that cargo-mutants prints as JSON."""
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
