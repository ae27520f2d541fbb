"""`nandlab replay --device`: conditions, latencies, what requests waited for, and bad input."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from interrupted_timelines import interrupt

import nandlab as nl
from nandlab.cli import main
from nandlab.cli.device_replay import _balance

_TINY = """
name = "tiny"
summary = "32 MiB over two dies"
[host]
bytes_per_second = 200000000
command_overhead_ns = 60000
queue_depth = 32
executes = 4
[flash]
part = "k9f2g08u0c"
blocks = 192
channels = 2
dies_per_channel = 1
capacity_bytes = 33554432
copy_back = true
ftl = "page"
[sources]
"host" = "of this test"
"flash" = "of this test"
"""


@pytest.fixture(name="device")
def _device(tmp_path: Path) -> Path:
    """A device that is steady within a moment."""
    path = tmp_path / "tiny.toml"
    path.write_text(_TINY)
    return path


@pytest.fixture(name="trace")
def _trace(tmp_path: Path) -> Path:
    """A thousand requests of 4 KiB, half of them reads, a millisecond apart, and one flush."""
    draw = random.Random(1)
    lines = ["fio version 3 iolog", "0 /dev/sda add", "0 /dev/sda open"]
    for number in range(1000):
        kind = "read" if draw.random() < 0.5 else "write"
        lines.append(f"{number * 1000} /dev/sda {kind} {draw.randrange(8192) * 4096} 4096")
    lines += ["1000000 /dev/sda sync 0 0", "1000000 /dev/sda close", ""]
    path = tmp_path / "thousand.log"
    path.write_text("\n".join(lines))
    return path


def _replayed(trace: Path, device: Path, **options: Any) -> dict[str, Any]:
    return nl.replay(trace, device=device, **options).answer


def test_every_request_that_goes_in_comes_out(trace: Path, device: Path) -> None:
    answer = _replayed(trace, device, ftl="page,fast", scheduler="noop,mq-deadline-6.12")
    stacks = [(run["ftl"], run["scheduler"]) for run in answer["runs"]]
    assert stacks == [(f, s) for f in ("page", "fast") for s in ("noop", "mq-deadline-6.12")]
    for run in answer["runs"]:
        assert run["requests_in"] == run["requests_out"] == run["records"] == 1001
        found = run["latencies"]
        assert sum(found[kind]["requests"] for kind in ("read", "write")) == 1000
        assert found["flush"]["requests"] == 1
        for kind in ("read", "write"):
            bands = [band for band in run["bands"] if band["operation"] == kind]
            assert sum(band["requests"] for band in bands) == found[kind]["requests"]
            for band in bands:
                assert sum(band["shares"].values()) == pytest.approx(1)
            means = sum(band["requests"] * band["mean_ns"] for band in bands)
            assert means / found[kind]["requests"] == pytest.approx(found[kind]["mean_ns"])


def test_a_read_of_a_steady_device_reads_a_page_and_of_an_erased_one_none(
    trace: Path, device: Path
) -> None:
    (steady,) = _replayed(trace, device)["runs"]
    (erased,) = _replayed(trace, device, precondition="none")["runs"]
    assert steady["steadiness"]["is_reached"]
    assert steady["chip_operations"][0] >= steady["latencies"]["read"]["requests"]
    assert erased["steadiness"] is None
    assert erased["latencies"]["read"]["mean_ns"] < steady["latencies"]["read"]["mean_ns"]
    assert erased["write_amplification"] < steady["write_amplification"]


def test_the_same_call_gives_the_same_answer(trace: Path, device: Path) -> None:
    assert _replayed(trace, device) == _replayed(trace, device)
    first, second = (_replayed(trace, device, seed=seed)["runs"] for seed in (1, 2))
    assert first != second


def test_paces(trace: Path, device: Path) -> None:
    (as_is,) = _replayed(trace, device, precondition="fill")["runs"]
    assert as_is["last_due_ns"] == 1_000_000_000
    (fast,) = _replayed(trace, device, precondition="fill", speed=2)["runs"]
    assert fast["last_due_ns"] == 500_000_000
    (closed,) = _replayed(trace, device, closed_loop=True, queue_depth=8)["runs"]
    assert closed["queue_depth_max"] == 8
    assert closed["queue_depth_mean"] == pytest.approx(8, rel=0.02)


def test_the_screen_names_conditions_and_what_was_waited_for(
    trace: Path, device: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown(*options: str) -> str:
        assert main(["replay", str(trace), "--device", str(device), *options]) == 0
        return capsys.readouterr().out

    text = shown()
    assert "thousand.log on tiny; open loop at the times of the trace; every page" in text
    assert "steady after" in text
    assert "seed 1, n = 1." in text
    assert "What requests waited for, by percentile of latency" in text
    assert "1,001 of 1,001 requests answered." in text
    assert "Note: the last request was due" not in text
    late = shown("--speed", "1000")
    assert "Note: the last request was due after 1 ms" in late
    told = json.loads(shown("--json"))
    assert told["result"]["conditions"]["precondition"] == "steady"


def test_a_timeline_has_tracks_of_requests_and_dies(
    trace: Path, device: Path, tmp_path: Path
) -> None:
    path = tmp_path / "replay.perfetto-trace"
    plain = _replayed(trace, device)
    assert _replayed(trace, device, timeline=path) == plain
    content = path.read_bytes()
    for name in (
        b"requests outstanding",
        b"request 0",
        b"die 0",
        b"channel 1",
        b"program",
        b"flush",
    ):
        assert name in content
    # Ten events for each request and some for the dies, of a few dozen bytes.
    assert 1001 * 100 < len(content) < 1001 * 1000
    assert [one.name for one in tmp_path.glob("*perfetto*")] == [path.name]


def test_half_a_timeline_of_a_replay_is_not_left(trace: Path, device: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    text = trace.read_text(encoding="utf-8")
    # After all requests, of which many are in the timeline by then.
    trace.write_text(text.replace("1000000 /dev/sda close", "1000000 /dev/sda frown 0 0"))
    before = sorted(one.name for one in tmp_path.iterdir())
    with pytest.raises(nl.NandlabError, match="frown"):
        nl.replay(trace, device=device, timeline=path)
    assert sorted(one.name for one in tmp_path.iterdir()) == before
    draw = random.Random(2)
    many = "".join(
        f"{number * 10} /dev/sda write {draw.randrange(8192) * 4096} 4096\n"
        for number in range(400_000)
    )
    head, _, _ = text.partition("0 /dev/sda open\n")
    trace.write_text(f"{head}0 /dev/sda open\n{many}4000000 /dev/sda close\n", encoding="utf-8")
    words = ["replay", str(trace), "--device", str(device), "--timeline", str(path)]
    interrupt(tmp_path, [*words, "--precondition", "none"])


def test_a_timeline_shows_one_stack(trace: Path, device: Path, tmp_path: Path) -> None:
    path = tmp_path / "two.perfetto-trace"
    with pytest.raises(nl.NandlabError, match="--timeline shows one stack, and 2 are asked for"):
        nl.replay(trace, device=device, ftl="page,fast", timeline=path)
    with pytest.raises(nl.NandlabError, match="--timeline needs --device"):
        nl.replay(trace, ftl="page", timeline=path)
    assert not path.exists()


def test_frames(trace: Path, device: Path) -> None:
    found = nl.replay(trace, device=device)
    assert found.latencies["operation"].to_list() == ["read", "write", "flush"]
    assert set(found.sizes["up_to_bytes"]) == {4096}
    assert {"cleaning", "service", "behind_reads"} <= set(found.bands.columns)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"precondition": "half"}, "--precondition: `half` is none of none, fill, random:PERCENT"),
        ({"precondition": "random:0"}, "--precondition: `random:0` is none of"),
        ({"scheduler": "mq-deadlin-6.12"}, "did you mean `mq-deadline-6.12`"),
        ({"scheduler": "noop,"}, "--scheduler: `noop,` has an empty name"),
        ({"ftl": "pge"}, "did you mean `page`"),
        ({"speed": 0}, "--speed: 0 must lie between"),
        ({"speed": float("nan")}, "--speed: nan must lie between"),
        ({"speed": 2, "closed_loop": True}, "--speed and --closed-loop exclude each other"),
        ({"queue_depth": 8}, "--queue-depth needs --closed-loop"),
        ({"queue_depth": 0, "closed_loop": True}, "--queue-depth: 0 must be at least 1"),
        ({"part": "k9f2g08u0c"}, "--part does not go with --device"),
        ({"fill": True}, "--fill does not go with --device"),
        ({"settings": {"host.quue_depth": 1}}, "did you mean `host.queue_depth`"),
    ],
)
def test_bad_options_get_one_message(
    trace: Path, device: Path, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(nl.NandlabError) as raised:
        nl.replay(trace, device=device, **options)
    assert complaint in str(raised.value)


def test_options_of_a_device_need_one(trace: Path) -> None:
    with pytest.raises(nl.NandlabError, match="--scheduler needs --device"):
        nl.replay(trace, ftl="page", scheduler="noop")
    with pytest.raises(nl.NandlabError, match="neither --ftl nor --device is given"):
        nl.replay(trace)
    with pytest.raises(nl.NandlabError, match="no device is called `emc"):
        nl.replay(trace, device="emc-4.5-64gb")


def test_addresses_past_the_end(trace: Path, device: Path) -> None:
    with pytest.raises(nl.NandlabError, match="lie past the end of the device"):
        nl.replay(trace, device=device, settings={"flash.capacity_bytes": 16777216})
    small = {"flash.capacity_bytes": 16777216}
    (wrapped,) = _replayed(trace, device, settings=small, address="modulo")["runs"]
    assert wrapped["requests_out"] == 1001
    (clipped,) = _replayed(trace, device, settings=small, address="clip")["runs"]
    assert clipped["requests_out"] < 1001


@pytest.mark.parametrize(
    ("rare", "told"),
    [
        ({}, ""),
        ({"read_retries": [1, 1]}, " 1 read took 1 retry."),
        ({"read_retries": [2, 5]}, " 2 reads took 5 retries."),
        ({"suspensions": 1}, " 1 program or erase stopped for a read."),
        ({"suspensions": 1200}, " 1,200 programs and erases stopped for a read."),
        ({"bkops": 1}, " The host started urgent background operations 1 time."),
        ({"bkops": 20}, " The host started urgent background operations 20 times."),
        ({"slc": {"written_pages": 0, "folded_pages": 0, "stale_pages": 0, "erases": 0}}, ""),
        (
            {"slc": {"written_pages": 1, "folded_pages": 0, "stale_pages": 1, "erases": 1}},
            " The SLC cache took 1 page: 0 folded, 1 written again or discarded before that, "
            "1 erase.",
        ),
    ],
)
def test_what_only_some_devices_do_is_told_where_it_happened(
    rare: dict[str, Any], told: str
) -> None:
    run = {"ftl": "page", "scheduler": "noop", "requests_in": 9, "requests_out": 9}
    assert _balance(run | rare, is_one=True) == f"9 of 9 requests answered.{told}"


def test_an_slc_cache_takes_writes_and_is_told(
    trace: Path, device: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slc = {"blocks_per_die": 8, "read_ns": 25_000, "program_ns": 200_000, "erase_ns": 2_000_000}
    words = ["replay", str(trace), "--device", str(device), "--precondition", "none"]
    for key, value in slc.items():
        words += ["--set", f"slc.{key}={value}"]
    assert main(words) == 0
    assert "The SLC cache took " in capsys.readouterr().out
    # The part states no times of one bit a cell.
    assert main(words[:-2]) == 2
    assert "slc.read_ns, program_ns and erase_ns must be given" in capsys.readouterr().err
