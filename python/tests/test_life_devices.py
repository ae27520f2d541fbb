"""How long named devices last: the range, the rate, and what is refused."""

import json
from pathlib import Path

import pytest

import nandlab
from nandlab.cli import main

ROOT = Path(__file__).parents[2]
DAY_NS = 86_400_000_000_000
DEVICE = """
name = "small"
summary = "two small dies"

[host]
bytes_per_second = 200000000
command_overhead_ns = 60000
queue_depth = 2
executes = 1

[flash]
part = "PART"
blocks = 64
channels = 1
dies_per_channel = 2
capacity_bytes = 4194304
copy_back = true
ftl = "page"

[cache]
bytes = 65536

[cleaning]
background = true
idle_before_ns = 10000000
free_target_blocks = 2
suspend = "page"
"""


def small_device(folder: Path, *, cycles: int = 1500) -> Path:
    """A device of two dies whose blocks stand few cycles."""
    part = (ROOT / "parts" / "k9f2g08u0c.toml").read_text(encoding="utf-8")
    part = part.replace("erase_cycles_max = 100000", f"erase_cycles_max = {cycles}")
    assert f"erase_cycles_max = {cycles}" in part
    (folder / "weak.toml").write_text(part, encoding="utf-8")
    path = folder / "small.toml"
    path.write_text(DEVICE.replace("PART", str(folder / "weak.toml")), encoding="utf-8")
    return path


def trace_file(folder: Path, *, writes: int = 600) -> Path:
    """Writes of 2 KiB, most of them in an eighth of 4 MiB, in a day."""
    state, rows = 1, []
    for number in range(writes):
        state = (state * 1103515245 + 12345) % 2**31
        page = state // 65536 % (256 if number % 8 else 2048)
        rows.append(f"{(number + 1) * DAY_NS // writes} 0 {page * 4} 4 0")
    path = folder / "writes.trace"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    parquet = folder / "writes.parquet"
    nandlab.convert(path, parquet, format="mqsim", time_unit="ns")
    return parquet


def test_a_device_has_a_life_between_two_ends(tmp_path: Path) -> None:
    device, trace = small_device(tmp_path), trace_file(tmp_path)
    found = nandlab.life(trace, device=device)
    (row,) = found.rows
    assert 0 < row["first_block_low_host_bytes"] < row["first_block_high_host_bytes"]
    assert row["first_block_low_host_bytes"] <= row["one_percent_low_host_bytes"]
    assert 0 < row["life_low_years"] <= row["life_high_years"]
    details = found.answer["candidates"][0]["details"]
    assert [one["is_filled"] for one in details["ends"]] == [False, True]
    # Gaps were left out: otherwise the answer were a full run.
    for one in details["ends"]:
        assert one["simulated_host_bytes"] < one["one_percent"]["host_bytes"]
    # Twice the cycles: about twice the life.
    stronger = nandlab.life(trace, device=small_device(tmp_path, cycles=3000)).rows[0]
    share = stronger["first_block_low_host_bytes"] / row["first_block_low_host_bytes"]
    assert share == pytest.approx(2, rel=0.1)
    # The estimate for even wear is above the life of a device that is full.
    assert row["lifetime_host_bytes"] > row["first_block_low_host_bytes"]


def test_a_rate_gives_the_years(tmp_path: Path) -> None:
    device, trace = small_device(tmp_path), trace_file(tmp_path)
    rates = [1 << 20, 2 << 20]
    once, twice = (nandlab.life(trace, device=device, rate=rate).rows[0] for rate in rates)
    assert twice["life_high_years"] / once["life_high_years"] == pytest.approx(0.5, rel=0.05)


def test_the_command_names_the_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    device, trace = small_device(tmp_path), trace_file(tmp_path)
    words = ["life", str(trace), "--device", str(device), "--set", "flash.ftl=fast"]
    assert main([*words, "--output-format", "json"]) == 0
    result = json.loads(capsys.readouterr().out)["result"]
    assert "2 × 32 blocks" in result["conditions"]
    # Another layer, another life.
    assert main([*words[:-2], "--output-format", "json"]) == 0
    other = json.loads(capsys.readouterr().out)["result"]
    lives = [one["candidates"][0]["first_block"] for one in (result, other)]
    assert lives[0] != lives[1]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"device": "disk-7200"}, "no flash that could wear"),
        ({"device": "emc-5.0-64gb"}, "emmc-5.0-64gb"),
        ({"device": "sd-c10-16gb", "ftl": "page"}, "--ftl"),
        ({"device": "sd-c10-16gb", "blocks": 64}, "--blocks"),
        ({"device": "sd-c10-16gb", "settings": {"flash.block": 4}}, "flash.block"),
    ],
)
def test_what_does_not_fit_a_device_is_refused(
    tmp_path: Path, options: dict[str, object], told: str
) -> None:
    with pytest.raises(nandlab.NandlabError, match=told):
        nandlab.life(trace_file(tmp_path, writes=20), **options)  # type: ignore[arg-type]
