"""`make mutants`: how faults are planted, which are drawn, and what its page says."""

import dataclasses
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import mutants  # noqa: E402
import mutants_page  # noqa: E402

SOURCE = """\
/// Adds; a { in a comment opens nothing.
#[inline]
pub(crate) fn add(left: [u32; 2], more: u32) -> u32 {
    left[0] + more
}

const fn one() -> u32 {
    1 + 0
}

fn odd(limit: u32) -> impl Iterator<Item = u32> {
    (0..limit).filter(|n| n % 2 == 1)
}

fn takes(all: impl Iterator<Item = u32>) -> u32 {
    all.count() as u32 + 0
}
"""


def mutant(function: str, original: str, replacement: str) -> mutants.Mutant:
    lines = SOURCE.splitlines()
    head = next(n for n, line in enumerate(lines) if f"fn {function}" in line)
    row = next(n for n in range(head, len(lines)) if original in lines[n])
    column = lines[row].index(original)
    first = head
    while first > 0 and lines[first - 1]:
        first -= 1
    last = lines.index("}", head)
    return mutants.Mutant(
        crate="c",
        file="crates/c/src/lib.rs",
        name=f"crates/c/src/lib.rs:{row + 1}:{column + 1}: replace {original} in {function}",
        start=(row + 1, column + 1),
        end=(row + 1, column + 1 + len(original)),
        replacement=replacement,
        function=((first + 1, 1), (last + 1, 2)),
    )


def test_a_fault_stands_where_it_is_listed() -> None:
    found = mutants.Source(SOURCE).planted(mutant("add", "+", "-"))
    assert found == SOURCE.replace("left[0] + more", "left[0] - more")


def test_faults_of_a_function_become_arms_of_a_match() -> None:
    source = mutants.Source(SOURCE)
    planted = {7: mutant("add", "+", "-"), 8: mutant("add", "+", "*"), 9: mutant("takes", "+", "-")}
    text, places = mutants.schema(source, planted)
    assert "-> u32 { match crate::planted_fault() {\n7 => {\n    left[0] - more\n}" in text
    assert "8 => {\n    left[0] * more\n}" in text
    assert "_ => {\n    left[0] + more\n}" in text
    assert "9 => {\n    all.count() as u32 - 0\n}" in text
    assert "const fn one() -> u32 {\n    1 + 0\n}" in text
    assert text.count("match crate::planted_fault()") == 2
    for number, (start, end) in places.items():
        assert text.encode()[start:end].startswith(f"{number} => ".encode())


@pytest.mark.parametrize(("function", "original"), [("one", "+"), ("odd", "==")])
def test_what_cannot_be_chosen_at_run_time_is_planted_alone(function: str, original: str) -> None:
    assert mutants.Source(SOURCE).body(mutant(function, original, "-")) is None


def test_a_named_seed_draws_the_same_faults_in_any_order() -> None:
    plain = mutant("add", "+", "-")
    listed = [dataclasses.replace(plain, name=f"lib.rs:1:1: fault {n}") for n in range(9)]
    drawn = mutants.drawn(listed, "seed", 3)
    assert len(drawn) == 3
    assert mutants.drawn(listed[::-1], "seed", None)[:3] == drawn
    keys = {tuple(m.key for m in mutants.drawn(listed, f"seed {n}", 3)) for n in range(20)}
    assert len(keys) > 5


def test_the_page_is_made_of_the_data_and_every_survivor_has_a_reason() -> None:
    data = json.loads(mutants_page.DATA.read_text("utf-8"))
    assert mutants_page.PAGE.read_text("utf-8") == mutants_page.page(data)
    assert mutants_page.TABLE.read_text("utf-8") == mutants_page.table(data)
    for entry in data["survivors"]:
        assert len(entry["reason"].split()) > 3, entry
    for entry in data["crates"]:
        counts = [entry[name] for name in mutants_page.OUTCOMES]
        assert sum(counts) == entry["tried"] <= entry["drawn"] <= entry["listed"], entry
        named = sum(s["crate"] == entry["crate"] for s in data["survivors"])
        assert named == entry["survived"], entry
