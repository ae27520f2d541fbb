"""How long flash lasts: one number whatever is asked, verdicts, and the range."""

import csv
import json
from pathlib import Path

import pytest

import nandlab
from nandlab.cli import main
from nandlab.lifetime.scripts import not_followed
from nandlab.lifetime.verdict import bytes_text, span, verdict, years_text

WORKLOADS = Path(__file__).parents[2] / "workloads" / "compare"
DAY = 1_000_000
YEAR = 365.25 * DAY
BLOCKS = 64
PAGE_BYTES = 2048


def trace_file(folder: Path, *, pages: int = 4096, writes: int = 2000) -> Path:
    """A trace of writes that overwrite a few pages often, in a day."""
    state, rows = 1, []
    for number in range(writes):
        state = (state * 1103515245 + 12345) % 2**31
        page = state // 65536 % (pages // 8 if number % 8 else pages)
        arrival_ns = (number + 1) * 86_400_000_000_000 // writes
        # fio's and blktrace's own words do not matter here: the plainest format will do.
        rows.append(f"{arrival_ns} 0 {page * PAGE_BYTES // 512} {PAGE_BYTES // 512} 0")
    path = folder / "writes.trace"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_one_number_whatever_command_asks(tmp_path: Path) -> None:
    trace = trace_file(tmp_path, pages=1500, writes=1500)
    parquet = tmp_path / "writes.parquet"
    nandlab.convert(trace, parquet, format="mqsim", time_unit="ns")
    ask = tmp_path / "work.toml"
    ask.write_text(
        '[workload]\nkind = "trace"\nfile = "writes.parquet"\n'
        f'capacity_bytes = {1500 * PAGE_BYTES}\npreconditioning = "none"\n',
        encoding="utf-8",
    )
    size = 1500 * PAGE_BYTES
    replayed = nandlab.replay(parquet, ftl="page", blocks=BLOCKS, logical_size=size)
    of_replay = int(replayed.wear["lifetime_host_bytes"])
    out = tmp_path / "compared"
    compared = nandlab.compare(workload=ask, ftl="page", blocks=BLOCKS, out=out)
    rows = compared.run.frame.filter(metric="lifetime_host_bytes")
    with (out / "results.csv").open(encoding="utf-8", newline="") as file:
        (of_csv,) = {
            row["value"] for row in csv.DictReader(file) if row["metric"] == "lifetime_host_bytes"
        }
    lived = nandlab.life(ask, ftl="page", blocks=BLOCKS)
    also = nandlab.life(parquet, ftl="page", blocks=BLOCKS, logical_size=size)
    found = [lived.rows[0]["lifetime_host_bytes"], also.rows[0]["lifetime_host_bytes"]]
    assert {of_replay, int(rows["value"][0]), int(of_csv), *found} == {of_replay}
    # Other conditions give another number: the comparison above can fail.
    larger = nandlab.life(ask, ftl="page", blocks=2 * BLOCKS)
    assert larger.rows[0]["lifetime_host_bytes"] != of_replay


def test_a_life_lies_between_its_ends(tmp_path: Path) -> None:
    trace = trace_file(tmp_path, pages=1500, writes=1500)
    parquet = tmp_path / "writes.parquet"
    nandlab.convert(trace, parquet, format="mqsim", time_unit="ns")
    options = {"blocks": BLOCKS, "logical_size": 3000 * PAGE_BYTES, "part": "k9gag08u0m"}
    options["logical_size"] = 3000 * 4096
    lived = nandlab.life(parquet, ftl="page", **options)
    (row,) = lived.rows
    assert 0 < row["life_low_years"] < row["life_high_years"]
    assert row["first_block_low_host_bytes"] <= row["one_percent_low_host_bytes"]
    details = lived.answer["candidates"][0]["details"]
    # No life is shorter than what was simulated of it.
    assert [one["is_filled"] for one in details["ends"]] == [False, True]
    assert (
        details["ends"][0]["first_block"]["host_bytes"] > details["ends"][0]["simulated_host_bytes"]
    )
    # Old data needs a page with fewer errors.
    assert details["ends"][1]["cycles_within_ecc"] < details["erase_cycles_max"]
    # Twice the rate: half the years.
    rate = round(2 * lived.answer["candidates"][0]["bytes_per_day"])
    faster = nandlab.life(parquet, ftl="page", rate=rate, **options)
    share = faster.rows[0]["life_high_years"] / row["life_high_years"]
    assert share == pytest.approx(0.5, rel=1e-3)


def test_a_script_that_wears_little_has_a_bound_by_its_most_worn_block(tmp_path: Path) -> None:
    (tmp_path / "work.ops").write_text("put a 644 4096 4096 x 1 fsync\nsleep 1000\n")
    ask = tmp_path / "my.toml"
    ask.write_text('[workload]\nkind = "script"\nfile = "work.ops"\n', encoding="utf-8")
    found = nandlab.life(ask, fs="jffs2,yaffs2", blocks=64)
    for one in found.answer["candidates"]:
        values = one["details"]
        assert values["life_is_bound"] == 1
        # In so many passes no block had eight turns.
        assert values["life_passes"] == 192
        cycles, erases = int(values["life_erase_cycles_max"]), int(values["life_hottest_erases"])
        bound = int(values["life_simulated_host_bytes"]) * cycles // (erases + 1)
        assert one["first_block"]["low_bytes"] == one["one_percent"]["low_bytes"] == bound
        # The high end supposes even wear, which is an estimate of one pass.
        assert one["first_block"]["high_bytes"] == max(bound, one["lifetime_host_bytes"])
    # A range that rests on 192 passes says so.
    told = "not followed to the end jffs2 after 192 passes, yaffs2 after 192 passes: the low end is"
    assert told in found.conditions


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        ([], []),
        ([("ubifs", 1)], ["ubifs after 1 pass: "]),
        ([("jffs2", 0), ("ubifs", 2)], ["jffs2 after 0 passes, ubifs after 2 passes: "]),
    ],
)
def test_lives_that_were_not_followed_to_their_end_are_named(
    bounds: list[tuple[str, int]], told: list[str]
) -> None:
    rows = [
        {"name": name, "is_bound": True, "details": {"life_passes": float(passes)}}
        for name, passes in bounds
    ]
    rows.append({"name": "yaffs2", "is_bound": False, "details": {"life_passes": 3.0}})
    found = not_followed(rows)
    assert [text.partition("the low end")[0] for _, text in found] == told


def test_work_that_writes_nothing_wears_nothing(tmp_path: Path) -> None:
    trace = tmp_path / "reads.trace"
    trace.write_text("1000 0 0 8 1\n2000 0 8 8 1\n", encoding="utf-8")
    parquet = tmp_path / "reads.parquet"
    nandlab.convert(trace, parquet, format="mqsim", time_unit="ns")
    found = nandlab.life(parquet, ftl="page,ubi", blocks=BLOCKS)
    assert all("writes nothing" in row["verdict"] for row in found.rows)
    for row in found.rows:
        assert row["is_more"]
        assert row["life_low_years"] is None
        assert row["first_block_low_host_bytes"] == row["first_block_high_host_bytes"] == 0


def test_the_verdict_has_a_margin() -> None:
    ends = [(int(31 * YEAR), False), (int(45.1 * YEAR), False)]
    assert verdict(span(ends, DAY), 10) == "yes, with a margin of 3.10 to 4.51"
    assert verdict(span(ends, DAY), 50) == "no: it lasts 31 to 45.1 years"
    assert verdict(span(ends, DAY), 40) == "not certain: it lasts 31 to 45.1 years"
    assert verdict(span(ends, None), 10).startswith("unknown")
    bound = span([(int(31 * YEAR), True), (int(31 * YEAR), True)], DAY)
    assert verdict(bound, 10) == "yes, with a margin of more than 3.10"
    assert verdict(bound, 50) == "not certain: it lasts more than 31 years"
    assert years_text(bound) == "more than 31 years"
    assert bytes_text(bound).startswith("more than ")
    # No margin is rounded up to one that is not there.
    assert verdict(span([(int(9.9999 * YEAR), False)], DAY), 10).startswith("no")


def test_the_logger_lasts_ten_years(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["life", str(WORKLOADS / "data-logger.toml"), "--fs", "ubifs", "--blocks", "128"]
    assert main([*words, "--output-format", "json"]) == 0
    result = json.loads(capsys.readouterr().out)["result"]
    (row,) = result["candidates"]
    assert row["verdict"].startswith("yes, with a margin of")
    assert "kernel" in result["conditions"]
    compared = nandlab.compare(
        workload=WORKLOADS / "data-logger.toml", fs="ubifs", blocks=128, jobs=1
    )
    values = compared.run.frame.filter(metric="lifetime_host_bytes")["value"]
    assert int(values[0]) == row["lifetime_host_bytes"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"fs": "fat"}, "stands on a block device"),
        ({"ftl": "page"}, "is a script"),
        ({}, "name the file systems"),
        ({"fs": "ubifs", "years": 0}, "--years 0"),
        ({"fs": "ubifs", "rate": "x/day"}, "--rate"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, object], told: str) -> None:
    with pytest.raises(nandlab.NandlabError, match=told):
        nandlab.life(WORKLOADS / "data-logger.toml", **options)  # type: ignore[arg-type]
