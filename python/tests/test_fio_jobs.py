"""What jobs of fio do: sizes, places, checks, ends. fio's own log of requests is the oracle."""

import json
import shutil
import subprocess
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

import nandlab as nl

DEVICE = "nvme-ssd"
pytestmark = pytest.mark.usefixtures("engine_is_built")


def job(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "job.fio"
    path.write_text(text, encoding="utf-8")
    return path


def lines_of(log: str) -> list[tuple[str, int, int]]:
    """Direction, offset and bytes of each request of a log of version 3."""
    words = [line.split() for line in log.splitlines()[1:]]
    return [(one[2], int(one[3]), int(one[4])) for one in words if len(one) == 5]


def ours(tmp_path: Path, options: str) -> list[tuple[str, int, int]]:
    text = f"[a]\ndirect=1\n{options}\nwrite_iolog=requests\n"
    nl.fio(job(tmp_path, text), device=DEVICE, logs=tmp_path / "logs")
    return lines_of((tmp_path / "logs" / "requests").read_text())


def theirs(tmp_path: Path, options: str) -> list[tuple[str, int, int]]:
    found = shutil.which("fio")
    if found is None:
        pytest.skip("fio is not installed: comparisons with it are left out")
    log = tmp_path / "theirs"
    text = f"[a]\nioengine=null\n{options}\nwrite_iolog={log}\n"
    path = tmp_path / "theirs.fio"
    path.write_text(text, encoding="utf-8")
    subprocess.run([found, str(path)], capture_output=True, check=True, cwd=tmp_path)
    return lines_of(log.read_text())


IN_ORDER = (
    "rw=write\nsize=1m\nbs=16k",
    "rw=read\nsize=1m\nbs=48k",
    "rw=write:8k\nsize=1m\nbs=8k\nio_size=512k",
    "rw=read:-16k\nsize=256k\nbs=8k",
    "rw=write\nsize=256k\nbs=4k\nloops=2",
    "rw=write\nsize=1m\nbs=16k\nio_size=256k",
    "rw=read\nsize=1m\nbs=16k\nnumber_ios=7",
    "rw=write\nsize=256k\noffset=64k\nbs=16k",
    "rw=read\nsize=1m\nbs=16k\nio_size=640k\nzonemode=strided\nzonesize=64k\nzoneskip=192k",
    "rw=read\nsize=1m\nbs=16k\nio_size=1m\nzonemode=strided\nzonesize=64k\nzonerange=32k\nzoneskip=64k",
)
"""Jobs whose requests are in order: every one is that of fio."""


@pytest.mark.parametrize("options", IN_ORDER)
def test_requests_in_order_are_those_of_fio(tmp_path: Path, options: str) -> None:
    assert ours(tmp_path, options) == theirs(tmp_path, options)


@pytest.mark.parametrize("rw", ["read", "randwrite"])
@pytest.mark.parametrize(
    "words",
    [
        *("size=10k", "size=10k\nloops=3", "size=1m\nio_size=10k", "size=10k\nio_size=25k"),
        *("size=16k\nio_size=37k", "size=16k\nio_size=33k", "size=16k\nloops=2\nio_size=10k"),
    ],
)
def test_as_many_requests_are_made_as_in_fio(tmp_path: Path, rw: str, words: str) -> None:
    options = f"rw={rw}\nbs=4k\n{words}"
    assert len(ours(tmp_path, options)) == len(theirs(tmp_path, options))


def test_a_wrong_order_is_seen(tmp_path: Path) -> None:
    """The comparison above can fail: another gap is another order."""
    assert ours(tmp_path, "rw=write:8k\nsize=256k\nbs=8k") != theirs(
        tmp_path, "rw=write:16k\nsize=256k\nbs=8k"
    )


AT_RANDOM = (
    "rw=randwrite\nsize=1m\nbs=4k",
    "rw=randread\nsize=1m\nbs=4k\nloops=3",
    "rw=randread\nsize=1000k\nbs=16k",
    "rw=randrw\nrwmixread=70\nsize=4m\nbs=4k",
)


@pytest.mark.parametrize("options", AT_RANDOM)
def test_a_random_pass_touches_each_block_as_often_as_in_fio(tmp_path: Path, options: str) -> None:
    own, fios = ours(tmp_path, options), theirs(tmp_path, options)
    assert len(own) == len(fios)
    assert Counter(offset for _, offset, _ in own) == Counter(offset for _, offset, _ in fios)


def test_without_a_map_places_repeat_as_in_fio(tmp_path: Path) -> None:
    options = "rw=randwrite\nsize=4m\nbs=4k\nnorandommap\nrandrepeat=0"
    for found in (ours(tmp_path, options), theirs(tmp_path, options)):
        assert len(found) == 1024
        # Of n draws of n places a share of 1 - 1/e is different: 647 of 1,024.
        assert abs(len({offset for _, offset, _ in found}) - 647) < 45


SPLIT = "512/10:1k/5:2k/5:4k/60:8k/2:16k/4:32k/4:64k/10"


def test_sizes_have_the_shares_that_they_have_in_fio(tmp_path: Path) -> None:
    # Many more bytes than requests: with a map the last ones would be cut to what is left.
    options = f"rw=randread\nsize=256m\nbssplit={SPLIT}\nnorandommap\nio_size=128m"
    shares = {512: 10, 1024: 5, 2048: 5, 4096: 60, 8192: 2, 16384: 4, 32768: 4, 65536: 10}
    for found in (ours(tmp_path, options), theirs(tmp_path, options)):
        counts = Counter(size for *_, size in found)
        assert set(counts) == set(shares)
        for size, percent in shares.items():
            assert abs(counts[size] * 100 / len(found) - percent) < 1.5, size
        # Both end with the request that reaches the bytes that were asked for.
        total = sum(size for *_, size in found)
        assert 128 << 20 <= total < (128 << 20) + 65536


@pytest.mark.parametrize("sizes", ["bsrange=1k-8k", "bs=4k,16k", "bssplit=4k/50:8k/,32k/100"])
def test_other_words_for_sizes_mean_what_they_mean_in_fio(tmp_path: Path, sizes: str) -> None:
    options = f"rw=randrw\nsize=64m\n{sizes}\nnorandommap\nio_size=16m"

    def shares(found: list[tuple[str, int, int]]) -> dict[tuple[str, int], float]:
        counts = Counter((direction, size) for direction, _, size in found)
        return {key: count / len(found) for key, count in counts.items()}

    own, fios = shares(ours(tmp_path, options)), shares(theirs(tmp_path, options))
    assert set(own) == set(fios)
    for key, share in fios.items():
        assert abs(own[key] - share) < 0.04, (key, own[key], share)


def test_a_pass_of_several_sizes_touches_each_byte_once(tmp_path: Path) -> None:
    options = "rw=randwrite\nsize=1m\nbssplit=512/50:4k/30:16k/20"
    for found in (ours(tmp_path, options), theirs(tmp_path, options)):
        touched = [0] * 2048
        for _, offset, size in found:
            assert offset % 512 == 0
            for sector in range(offset // 512, (offset + size) // 512):
                touched[sector] += 1
        assert set(touched) == {1}


def test_random_places_lie_on_their_grid(tmp_path: Path) -> None:
    options = "rw=randread\nsize=1m\nbs=512\nblockalign=4k\nnorandommap\nio_size=256k"
    for found in (ours(tmp_path, options), theirs(tmp_path, options)):
        assert len(found) == 512
        assert all(offset % 4096 == 0 for _, offset, _ in found)


def test_a_share_of_random_places_is_that_of_fio(tmp_path: Path) -> None:
    options = "rw=randread\nsize=64m\nbs=4k\npercentage_random=30\nnorandommap\nio_size=16m"
    for found in (ours(tmp_path, options), theirs(tmp_path, options)):
        places = [offset for _, offset, _ in found]
        in_order = sum(after == before + 4096 for before, after in pairwise(places))
        assert abs(in_order * 100 / len(found) - 70) < 3


@pytest.mark.parametrize("law", ["zipf:0.9", "zipf:1.2", "pareto:0.2", "zoned:60/10:40/90"])
def test_popular_places_are_as_popular_as_in_fio(tmp_path: Path, law: str) -> None:
    options = f"rw=randread\nsize=4m\nbs=4k\nrandom_distribution={law}\nnorandommap\nio_size=80m"

    def most(found: list[tuple[str, int, int]]) -> list[float]:
        counts = sorted(Counter(offset for _, offset, _ in found).values(), reverse=True)
        return [sum(counts[:number]) / len(found) for number in (1, 10, 100)]

    # Places are scattered by another hash, and 1,024 of them share some: an eighth is allowed.
    for own, fios in zip(
        most(ours(tmp_path, options)), most(theirs(tmp_path, options)), strict=True
    ):
        assert abs(own / fios - 1) < 0.13, (own, fios)


VERIFIED = (
    "rw=write\nsize=1m\nbs=16k\nverify=crc32c",
    "rw=randwrite\nsize=1m\nbs=16k\nverify=md5\nloops=2",
    "rw=randwrite\nsize=1m\nbs=4k\nverify=crc32c\nnorandommap",
    "rw=write\nsize=1m\nbs=16k\nverify=crc32c\nverify_backlog=4",
    "rw=write\nsize=1m\nbs=16k\nverify=crc32c\nverify_backlog=4\nverify_backlog_batch=2",
    "rw=write\nsize=1m\nbs=16k\nverify=crc32c\ndo_verify=0",
)


@pytest.mark.parametrize("options", VERIFIED)
def test_what_is_written_is_read_again_as_in_fio(tmp_path: Path, options: str) -> None:
    """A job on a file in memory: the null engine gives no data that could be right."""
    text = options + f"\nfilename={tmp_path}/data"
    fios = theirs_with_data(tmp_path, text)
    own = ours(tmp_path, options)
    if "norandommap" not in options:
        assert [one for one, *_ in own] == [one for one, *_ in fios]
    if "rw=write" in options:
        assert own == fios
    reads = [offset for one, offset, _ in own if one == "read"]
    writes = [offset for one, offset, _ in own if one == "write"]
    if "do_verify" in options:
        assert reads == []
    else:
        assert set(reads) == set(writes)
    if "norandommap" in options:
        assert reads == sorted(reads), "by place, each once"


def theirs_with_data(tmp_path: Path, options: str) -> list[tuple[str, int, int]]:
    found = shutil.which("fio")
    if found is None:
        pytest.skip("fio is not installed: comparisons with it are left out")
    log = tmp_path / "theirs"
    path = tmp_path / "theirs.fio"
    path.write_text(f"[a]\nioengine=sync\n{options}\nwrite_iolog={log}\n", encoding="utf-8")
    subprocess.run([found, str(path)], capture_output=True, check=True, cwd=tmp_path)
    return lines_of(log.read_text())


def test_reads_of_a_check_have_a_time_of_their_own(tmp_path: Path) -> None:
    text = "[a]\nrw=write\nsize=4m\nbs=16k\ndirect=1\nverify=crc32c\n"
    (found,) = nl.fio(job(tmp_path, text), device=DEVICE).fio["jobs"]
    whole = found["job_runtime"]
    assert found["read"]["total_ios"] == found["write"]["total_ios"] == 256
    assert 0 < found["read"]["runtime"] < whole
    assert abs(found["read"]["runtime"] + found["write"]["runtime"] - whole) <= 2


def test_jobs_of_a_flow_keep_their_ratio(tmp_path: Path) -> None:
    text = (
        "[global]\ndirect=1\nsize=64m\nbs=4k\ntime_based\nruntime=200ms\nrw=randread\n"
        "ioengine=libaio\niodepth=4\n[a]\nflow=1\n[b]\nflow=8\n"
    )
    rows = nl.fio(job(tmp_path, text), device=DEVICE).rows
    one, eight = (row["requests"] for row in rows)
    assert abs(eight / one - 8) < 0.05
    apart = nl.fio(job(tmp_path, text.replace("flow=", "flow_id=1\nflow=", 1)), device=DEVICE).rows
    assert apart[1]["requests"] / apart[0]["requests"] < 2, "two flows are no ratio"


def test_one_end_is_the_end_of_others(tmp_path: Path) -> None:
    text = (
        "[global]\ndirect=1\nsize=256m\nbs=4k\nrw=randread\n"
        "[short]\nnumber_ios=10\nEND\n[long]\n[later]\nstonewall\nnumber_ios=10\n"
    )

    def counts(end: str) -> list[int]:
        found = nl.fio(job(tmp_path, text.replace("END", end)), device=DEVICE).fio["jobs"]
        return [one["read"]["total_ios"] for one in found]

    assert counts("") == [10, 65536, 10]
    # `exit_what` is that of the job that ends first; the file's last job ends alone.
    short, long, later = counts("exitall\nexit_what=stonewall")
    assert (short, later) == (10, 10)
    assert long < 40
    assert counts("exitall\nexit_what=all")[2] == 0


def test_a_job_begins_on_the_device_as_the_one_before_left_it(tmp_path: Path) -> None:
    """Reads of blocks that were never written cost nothing; the first job writes them."""
    text = "[global]\ndirect=1\nsize=16m\nbs=64k\nfilename=f\n{}[read]\nstonewall\nrw=read\n"
    write = "[write]\nrw=write\n"
    alone = nl.fio(job(tmp_path, text.format("")), device=DEVICE, precondition="none").rows
    after = nl.fio(job(tmp_path, text.format(write)), device=DEVICE, precondition="none").rows
    assert after[1]["job"] == alone[0]["job"] == "read"
    assert after[1]["mean_ns"] > 2 * alone[0]["mean_ns"]


def test_a_job_ends_when_its_rate_is_steady(tmp_path: Path) -> None:
    text = (
        "[a]\ndirect=1\nrw=randread\nsize=16m\nbs=4k\nrate_iops=1000\ntime_based\nruntime=20s\n"
        "ss={}\nss_dur=3s\nss_ramp=1s\n"
    )
    (found,) = nl.fio(job(tmp_path, text.format("iops:10%")), device=DEVICE).fio["jobs"]
    steady = found["steadystate"]
    assert steady["attained"] == 1
    assert 4000 <= found["read"]["runtime"] <= 4002, "a second of ramp, and three that are steady"
    assert [abs(one - 1000) <= 1 for one in steady["data"]["iops"]] == [True] * 3
    # A limit that no window keeps: the time ends it. A thousandth of a request a second is one.
    (long,) = nl.fio(job(tmp_path, text.format("iops:0.0001")), device=DEVICE).fio["jobs"]
    assert long["steadystate"]["attained"] in (0, 1)
    if long["steadystate"]["attained"] == 0:
        assert long["read"]["runtime"] >= 20_000
    told = nl.fio(job(tmp_path, text.format("bw_slope:1%")), device=DEVICE).text
    assert "steadystate  : attained=yes, bw=" in told
    assert "bw slope=" in told


def test_the_steady_state_has_the_keys_of_fio(tmp_path: Path) -> None:
    fio = shutil.which("fio")
    if fio is None:
        pytest.skip("fio is not installed: comparisons with it are left out")
    options = (
        "rw=read\nsize=64m\nbs=4k\nrate_iops=500\ntime_based\nruntime=9s\nss=iops:20%\nss_dur=2s"
    )
    path = job(tmp_path, f"[a]\nioengine=null\n{options}\n")
    told = subprocess.run(
        [fio, "--output-format=json", str(path)], capture_output=True, text=True, check=True
    )
    theirs = json.loads(told.stdout)["jobs"][0]["steadystate"]
    text = f"[a]\ndirect=1\n{options}\n"
    own = nl.fio(job(tmp_path, text), device=DEVICE).fio["jobs"][0]["steadystate"]
    assert list(own) == list(theirs)
    assert list(own["data"]) == list(theirs["data"])
    assert (own["ss"], own["duration"]) == (theirs["ss"], theirs["duration"])


def test_a_job_finds_the_depth_that_keeps_a_latency(tmp_path: Path) -> None:
    text = (
        "[a]\ndirect=1\nioengine=libaio\niodepth=64\nrw=randread\nsize=256m\nbs=4k\ntime_based\n"
        "runtime=20s\nlatency_target=900\nlatency_window=100ms\nlatency_percentile=99\n"
    )
    device = "emmc-5.1-64gb"
    (found,) = nl.fio(job(tmp_path, text), device=device).fio["jobs"]
    # This card reads one block in about 109 us, one after the other.
    depth = found["latency_depth"]
    assert 6 <= depth <= 9
    assert (found["latency_target"], found["latency_window"]) == (900_000, 100_000)
    # Only the last window is reported: all of it at the depth that was found.
    assert 100 <= found["read"]["runtime"] <= 102
    assert found["read"]["clat_ns"]["percentile"]["99.000000"] <= 910_000
    deeper = text.replace("iodepth=64", f"iodepth={depth + 1}").split("latency_target")[0]
    (slow,) = nl.fio(job(tmp_path, deeper), device=device, most_requests=20_000).fio["jobs"]
    assert slow["read"]["clat_ns"]["percentile"]["99.000000"] > 900_000


def test_each_direction_has_its_rate(tmp_path: Path) -> None:
    text = (
        "[a]\ndirect=1\nioengine=libaio\niodepth=8\nrw=randrw\nsize=64m\nbs=4k\n"
        "rate_iops=300,100\ntime_based\nruntime=10s\n"
    )
    reads, writes = nl.fio(job(tmp_path, text), device=DEVICE).rows
    assert abs(reads["iops"] / 300 - 1) < 0.01
    assert abs(writes["iops"] / 100 - 1) < 0.01


def test_processes_with_an_increment_work_side_by_side(tmp_path: Path) -> None:
    text = (
        "[a]\ndirect=1\nrw=write\nbs=16k\nsize=64k\noffset=32k\noffset_increment=1m\nnumjobs=3\n"
        "filename=/dev/x\nwrite_iolog=requests\n"
    )
    nl.fio(job(tmp_path, text), device=DEVICE, logs=tmp_path / "logs")
    found = lines_of((tmp_path / "logs" / "requests").read_text())
    first = [32768 + (index << 20) for index in range(3)]
    assert [offset for _, offset, _ in found] == [
        begin + step for begin in first for step in range(0, 65536, 16384)
    ]


def test_requests_of_a_size_have_their_priority(tmp_path: Path) -> None:
    """With mq-deadline requests of class real time go first: those of the small size are faster."""
    text = (
        "[a]\ndirect=1\nioengine=libaio\niodepth=32\nrw=randread\nsize=256m\nnorandommap\n"
        "bssplit=4k/50:8k/50\nio_size=16m\nPRIO\nwrite_lat_log=lat\n"
    )

    def mean_of_small(prio: str) -> float:
        path = job(tmp_path, text.replace("PRIO", prio))
        nl.fio(path, device="emmc-5.1-64gb", scheduler="mq-deadline-6.12", logs=tmp_path / "logs")
        lines = (tmp_path / "logs" / "lat_clat.1.log").read_text().splitlines()
        rows = [[int(part) for part in line.split(",")] for line in lines]
        small = [row[1] for row in rows if row[3] == 4096]
        return sum(small) / len(small)

    plain = mean_of_small("")
    urgent = mean_of_small("cmdprio_bssplit=4k/100/1/0:8k/0,4k/0")
    assert urgent < 0.7 * plain, (urgent, plain)


def test_logs_have_places_where_they_are_asked_for(tmp_path: Path) -> None:
    text = "[a]\ndirect=1\nrw=write\nbs=64k\nsize=256k\nwrite_lat_log=lat\n{}"
    for option, places in (("", [0] * 4), ("log_offset=1\n", [0, 65536, 131072, 196608])):
        nl.fio(job(tmp_path, text.format(option)), device=DEVICE, logs=tmp_path / "logs")
        lines = (tmp_path / "logs" / "lat_lat.1.log").read_text().splitlines()
        assert [int(line.split(",")[4]) for line in lines] == places


DEPTHS = ("1", "4")


def measured_at_depths(tmp_path: Path) -> tuple[Path, Path]:
    """Folders with JSON and with logs, named as fio-plot looks for them."""
    reports, logs = tmp_path / "reports", tmp_path / "logs"
    reports.mkdir()
    for depth in DEPTHS:
        name = f"randread-iodepth-{depth}-numjobs-1"
        text = (
            f"[randread]\nrw=randread\nbs=4k\nsize=16m\ndirect=1\nioengine=libaio\niodepth={depth}\n"
            f"numjobs=1\nruntime=3\ntime_based\nwrite_bw_log={name}\nwrite_iops_log={name}\n"
        )
        found = nl.fio(job(tmp_path, text), device="emmc-5.1-64gb", logs=logs, form="json")
        (reports / f"randread-{depth}-1.json").write_text(found.text, encoding="utf-8")
    return reports, logs


def test_fio_plot_draws_reports_and_logs(tmp_path: Path) -> None:
    program = shutil.which("fio-plot")
    if program is None:
        pytest.skip("fio-plot is not installed (pip install fio-plot): its figures are left out")
    reports, logs = measured_at_depths(tmp_path)
    common = ["-T", "t", "-r", "randread", "-n", "1", "-d", *DEPTHS]
    for folder, kind in ((reports, ["-l"]), (logs, ["-g", "-t", "bw", "iops"])):
        figure = tmp_path / f"figure{kind[0]}.png"
        words = [program, "-i", str(folder), *common, *kind, "-o", str(figure)]
        subprocess.run(words, capture_output=True, check=True, env={"MPLBACKEND": "Agg"})
        assert figure.read_bytes().startswith(b"\x89PNG")


def test_fio2gnuplot_reads_our_logs(tmp_path: Path) -> None:
    program = shutil.which("fio2gnuplot")
    if program is None:
        pytest.skip("fio2gnuplot is not installed (it comes with fio): reading by it is left out")
    _, logs = measured_at_depths(tmp_path)
    told = subprocess.run(
        [program, "-b", "-d", str(tmp_path)], capture_output=True, text=True, check=True, cwd=logs
    )
    for depth in DEPTHS:
        assert f"|-> randread-iodepth-{depth}-numjobs-1_bw.1.log" in told.stdout, told.stdout
    assert [path.name for path in tmp_path.rglob("*") if "gnuplot" in path.name]
