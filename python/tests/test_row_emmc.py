"""The study of ROW's cover letter: what decides each row of its table."""

import pytest
from quick_runs import quick_run

from nandlab.frame import read

SCHEDULERS = ("noop", "deadline-3.4", "cfq-3.4", "row")

Rows = dict[tuple[str, str, str], dict[str, float]]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """Metrics by mechanism, kind of writer and scheduler, of the first start."""
    found: Rows = {}
    for row in read(quick_run("row-emmc", tmp_path_factory).folder).frame.to_dicts():
        if row["start_ms"] == 0:
            place = row["mechanism"], row["writers"], row["scheduler"]
            found.setdefault(place, {})[row["metric"]] = row["value"]
    return found


def rates(rows: Rows, mechanism: str, writers: str = "buffered") -> dict[str, float]:
    """MB/s of the reader under each scheduler."""
    call_bytes = 8_192
    return {
        scheduler: call_bytes * 1_000 / rows[mechanism, writers, scheduler]["read_latency_mean_ns"]
        for scheduler in SCHEDULERS
    }


def test_row_reads_fastest_if_the_driver_takes_one_command_at_a_time(rows: Rows) -> None:
    for mechanism in ("card-2012", "card-2013"):
        found = rates(rows, mechanism)
        assert found["noop"] * 1.5 < found["cfq-3.4"] < found["row"] / 1.3
        assert found["deadline-3.4"] == pytest.approx(found["noop"], rel=0.01)


def test_a_driver_that_prepares_the_next_command_turns_cfq_and_row_round(rows: Rows) -> None:
    """CFQ's writer waits until the reader is done; ROW sends a write for each read."""
    for mechanism in ("prepares-next", "card-2013-prepares-next"):
        found = rates(rows, mechanism)
        assert found["cfq-3.4"] > 2.5 * found["row"]
        assert found["row"] == pytest.approx(found["noop"], rel=0.01)
    # No read waits for a write, of which each takes 33 ms.
    longest = rows["prepares-next", "buffered", "cfq-3.4"]["read_longest_bio_behind_writes_ns"]
    assert longest == 0


def test_without_idling_both_read_like_noop(rows: Rows) -> None:
    found = rates(rows, "no-idling")
    assert found == pytest.approx(dict.fromkeys(SCHEDULERS, found["noop"]), rel=0.01)
    # A write of 512 KiB follows each read of two windows: fewer commands than windows and writes.
    row = rows["no-idling", "buffered", "row"]
    pairs = row["read_bios"] + row["write_bios"] - row["device_commands"]
    assert pairs == pytest.approx(row["write_bios"], rel=0.05)


def test_each_longest_read_is_a_number_of_writes(rows: Rows) -> None:
    """The whole queue under NOOP, a batch under Deadline, a turn under CFQ, one under ROW."""
    behind = {
        scheduler: rows["card-2012", "buffered", scheduler]["read_longest_bio_behind_writes_ns"]
        for scheduler in SCHEDULERS
    }
    # ROW's read comes while a write is in service, so it waits for less than a whole one.
    write_ns = behind["deadline-3.4"] / 16
    assert 0.5 < behind["row"] / write_ns < 1.2
    assert 2.5 < behind["cfq-3.4"] / write_ns < 3.5
    assert 128 < behind["noop"] / write_ns < 150


def test_only_requests_wait_for_seconds_and_no_call_of_the_writer_does(rows: Rows) -> None:
    for scheduler in SCHEDULERS:
        row = rows["card-2012", "buffered", scheduler]
        assert row["write_longest_bio_ns"] > 4e9
        assert row["write_latency_max_ns"] < 1e9
