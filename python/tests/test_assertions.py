"""`make assertion-faults`: how faults are planted, and what its record says."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import assertion_source  # noqa: E402
import assertions_page  # noqa: E402

LEAST_SHOWN = 300

SOURCE = """\
/// An example: assert!(false) in a comment is none.
fn fill(list: &mut Vec<u32>, count: u32) {
    for number in 0..count {
        list.push(number);
    }
    if list.len() > 3 && count != '{' as u32 {
        list.clear();
    }
    debug_assert_eq!(
        list.len(), 3, "three; and no more"
    );
    assert!(count > 0);
    assert!(count > 0);
}

const fn one() -> u32 {
    let first = 1;
    first
}

fn sum(mut total: u32) -> bool {
    total += 2;
    let half = total / 2;
    while total > 9 {
        total = half;
    }
    true
}

#[cfg(test)]
mod tests {
    fn checks() {
        assert_eq!(1, 1);
    }
}
"""


def source() -> assertion_source.RustFile:
    return assertion_source.RustFile("crates/fs/toy/src/lib.rs", SOURCE)


def test_assertions_are_found_outside_tests_comments_and_strings() -> None:
    found = source().assertions()
    assert [(one.line, one.text) for one in found] == [
        (9, 'debug_assert_eq!( list.len(), 3, "three; and no more" )'),
        (12, "assert!(count > 0)"),
        (13, "assert!(count > 0)"),
    ]
    assert found[2].key == f"{found[1].key} #2"


def test_a_key_stays_when_lines_above_the_assertion_change() -> None:
    moved = assertion_source.RustFile("crates/fs/toy/src/lib.rs", "\n\nuse std::fmt;\n" + SOURCE)
    assert [one.key for one in moved.assertions()] == [one.key for one in source().assertions()]
    assert moved.assertions()[0].line != source().assertions()[0].line


def test_faults_stand_in_functions_that_run_and_not_in_assertions_or_tests() -> None:
    file = source()
    found = [(fault.kind, file.line(fault.start)) for fault in file.faults()]
    assert found == [
        ("body left out", 2),
        ("loop left out", 3),
        ("statement left out", 4),
        ("condition negated", 6),
        ("statement left out", 7),
        ("statement left out", 22),
        ("one more is added", 22),
        ("other value", 23),
        ("loop left out", 24),
        ("statement left out", 25),
        ("other value", 25),
        ("other value", 27),
    ]


def test_planted_faults_keep_every_line_where_it_is() -> None:
    file = source()
    faults = dict(enumerate(file.faults(), 1))
    text, places = assertion_source.planted(SOURCE, faults)
    before, after = SOURCE.splitlines(), text.splitlines()
    assert len(before) == len(after)
    assert after[2].strip() == "if !crate::planted::on(2) { for number in 0..count {"
    assert after[3].strip() == "if !crate::planted::on(3) { list.push(number); }"
    assert after[5].strip() == (
        "if (list.len() > 3 && count != '{' as u32) ^ crate::planted::on(4) {"
    )
    assert after[21].strip() == (
        "if !crate::planted::on(6) { total += 2; } if crate::planted::on(7) { total += 1; }"
    )
    assert after[22].strip() == "let half = crate::planted::more(8, total / 2);"
    assert after[26].strip() == "(true ^ crate::planted::on(12))"
    for line in (9, 12, 17, 32):
        assert after[line - 1] == before[line - 1]
    assert places.keys() == faults.keys()
    taken = text.encode()
    for pieces in sorted((piece for own in places.values() for piece in own), reverse=True):
        taken = taken[: pieces[0]] + taken[pieces[1] :]
    assert taken.decode() == SOURCE


def test_evidence_stays_when_a_later_run_has_none() -> None:
    keys = {"toy": ["a.rs: assert!(a)", "a.rs: assert!(b)"]}
    shown = [{"assertion": "a.rs: assert!(b)", "crate": "toy", "test": "t", "fault": "k"}]
    first = assertions_page.merged(keys, {}, shown)
    assert assertions_page.merged(keys, assertions_page.evidence_of(first), []) == first
    assert assertions_page.counts(first["crates"]["toy"]) == (2, 1, 0)


def test_a_new_assertion_and_one_that_is_gone_are_differences() -> None:
    found = {"toy": [one.key for one in source().assertions()]}
    data = assertions_page.merged(found, {}, [])
    assert assertions_page.differences(data, found) == []
    new = dataclasses.replace(source().assertions()[0], text="assert!(new)").key
    assert assertions_page.differences(data, {"toy": [*found["toy"], new]}) == [
        f"not in the record: {new}"
    ]
    assert assertions_page.differences(data, {"toy": found["toy"][1:]}) == [
        f"not in the source: {found['toy'][0]}"
    ]


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(assertions_page.DATA.read_text("utf-8"))
    return read


def test_the_record_names_every_assertion_of_the_source_and_no_other(
    data: dict[str, Any],
) -> None:
    found = assertions_page.in_source()
    assert assertions_page.differences(data, found) == []
    assert {crate: len(keys) for crate, keys in found.items() if keys} == {
        crate: len(entries) for crate, entries in data["crates"].items()
    }


def test_enough_assertions_were_seen_to_fail(
    data: dict[str, Any],
) -> None:
    entries = [entry for own in data["crates"].values() for entry in own]
    shown = [entry for entry in entries if entry.get("test")]
    assert len(shown) >= LEAST_SHOWN
    for entry in entries:
        if "fault" in entry:
            assert entry["file"].startswith("crates/"), entry
            assert entry["line"], entry
            assert entry["test"], entry


def test_the_page_is_made_of_the_record(
    data: dict[str, Any],
) -> None:
    assert assertions_page.PAGE.read_text("utf-8") == assertions_page.page(data)
