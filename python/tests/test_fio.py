"""Job files of fio: read as fio reads them, run on a simulated device, reported as fio reports.

fio itself is the oracle where it is installed. Its example jobs come with Debian's package
fio-examples; `NANDLAB_FIO_EXAMPLES` names their folder where it is another one.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

import nandlab as nl
from nandlab.cli import main
from nandlab.errors import NandlabError
from nandlab.fio_jobs.job_file import Section, read_job_file, showcmd
from nandlab.fio_jobs.json_form import text_of
from nandlab.fio_jobs.measured import Direction, Latency, Windows, middle_of_bin
from nandlab.fio_jobs.normal_form import direction_lines, scaled
from nandlab.fio_jobs.options import BY_NAME, OPTIONS
from nandlab.fio_jobs.settings import settings_of
from nandlab.fio_jobs.values import bytes_of

DEVICE = "nvme-ssd"
ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = Path(os.environ.get("NANDLAB_FIO_EXAMPLES", "/usr/share/doc/fio/examples"))
ONE = "[a]\nrw=randread\nsize=4m\ndirect=1\n"


def fio_or_skip() -> str:
    found = shutil.which("fio")
    if found is None:
        pytest.skip("fio is not installed: comparisons with it are left out")
    return found


def examples_or_skip() -> Path:
    if not EXAMPLES.is_dir():
        pytest.skip(f"{EXAMPLES} is not there: the example jobs of fio are left out")
    return EXAMPLES


def job(tmp_path: Path, text: str, name: str = "job.fio") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def by_job(line: str) -> list[tuple[str, list[str]]]:
    """The options of each job in a command line of fio; what stands before the first is `fio`.

    In any order, since fio puts filename behind the others, and without the quotes that fio puts
    around some values.
    """
    head, *words = re.split(r" (?=--)", line.strip().replace('"', ""))
    assert head == "fio"
    found: list[tuple[str, list[str]]] = [("fio", [])]
    for word in words:
        if word.startswith("--name=") and word not in found[-1][1]:
            found.append((word, []))
        else:
            key, equals, value = word.removeprefix("--").partition("=")
            option = BY_NAME.get(key)
            # fio shows some synonyms by the first name of the key.
            shown = option.name if option else key
            found[-1][1].append(f"{shown}{equals}{value}")
    return [(name, sorted(options)) for name, options in found]


def as_fio_shows(sections: list[Section]) -> str:
    """The sections as `fio --showcmd` prints them: all global options again when some are added."""
    words = ["fio"]
    shown = 0
    for section in sections:
        if len(section.inherited) > shown:
            words += [one.word for one in section.inherited]
            shown = len(section.inherited)
        words += [f"--name={section.name}", *(one.word for one in section.own)]
    return " ".join(words)


# Reading


def made_up(seed: int) -> str:
    """A job file with comments, blanks, repeated sections and options that fio takes."""
    numbers = Random(seed)
    options = (
        "rw=randread", "rw=write", "bs=4k", "bs=16K", "bs = 8k", "iodepth=4", "direct=1", "thread",
        "size=1m", "size=0x100000", "numjobs=2", "runtime=5s", "time_based", "stonewall",
        "group_reporting", "description=some words", "filename=a", "norandommap", "fsync=8",
        "thinktime=100us", "rate_iops=100", "  ioengine=psync", "percentile_list=50:99",
    )  # fmt: skip
    lines = ["; a comment", "# another", ""]
    names = ["global", "a", "b c", "global", "a", "d"]
    for name in names[: numbers.randint(2, len(names))]:
        lines.append(f"[{name}]")
        for option in numbers.sample(options, numbers.randint(1, 6)):
            end = numbers.choice(["", "", " ", " ; why", " # why", "\r"])
            lines.append(option + end)
            lines += [""] * numbers.randint(0, 1)
    lines += ["[last]", "size=1m"]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("seed", range(60))
def test_sections_inherit_as_in_fio(seed: int, tmp_path: Path) -> None:
    path = job(tmp_path, made_up(seed))
    told = subprocess.run(
        [fio_or_skip(), "--showcmd", str(path)], capture_output=True, text=True, check=True
    )
    assert by_job(as_fio_shows(read_job_file(path, {}))) == by_job(told.stdout)


def test_a_wrong_inheritance_is_seen(tmp_path: Path) -> None:
    """The comparison above can fail: an option in another section is a difference."""
    one = by_job("fio --bs=4k --name=a --rw=read --name=b")
    assert one != by_job("fio --bs=4k --name=a --name=b --rw=read")
    assert one != by_job("fio --name=a --bs=4k --rw=read --name=b")


def test_includes_and_variables_are_those_of_fio(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    job(tmp_path, "rw=${RW}\ninclude more # why\n", "below/some")
    job(tmp_path, "bs=16k ; why\n", "below/more")
    path = job(tmp_path, "[a${RW}]\ninclude below/some\nsize=${SIZE}m\ndescription=x${NONE}y\n")
    variables = {"RW": "write", "SIZE": "7"}
    told = subprocess.run(
        [fio_or_skip(), "--showcmd", str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=os.environ | variables,
    )
    found = by_job(as_fio_shows(read_job_file(path, variables)))
    assert found == by_job(told.stdout)
    assert found[1][1] == ["bs=16k", "description=xy", "rw=write", "size=7m"]


def test_the_command_line_means_what_the_file_means(tmp_path: Path) -> None:
    """Read again by fio, it gives each job the same options."""
    text = "[global]\nbs=4k\n[a]\nrw=read\n[global]\nsize=1m\n[b c]\ndescription=x y\n"
    path = job(tmp_path, text)
    line = showcmd(read_job_file(path, {}))
    assert line == "fio --bs=4k --name=a --rw=read '--name=b c' --size=1m '--description=x y'"


def example_names() -> list[str]:
    return sorted(path.name for path in EXAMPLES.glob("*.fio")) if EXAMPLES.is_dir() else ["none"]


VARIABLES = {"FIO_RW": "randread", "FIO_IODEPTH": "4", "FIO_BS": "4k"}


@pytest.mark.parametrize("name", example_names())
def test_examples_are_read_as_in_fio(name: str) -> None:
    path = examples_or_skip() / name
    told = subprocess.run(
        [fio_or_skip(), "--showcmd", str(path)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | VARIABLES,
    )
    if told.returncode:
        pytest.skip(f"{name}: this build of fio refuses it: {told.stderr.splitlines()[0]}")
    found = read_job_file(path, os.environ | VARIABLES)
    assert by_job(as_fio_shows(found)) == by_job(told.stdout)


SIMPLE = ("libaio", "psync", "sync", "io_uring")
REFUSED_EXAMPLES = {
    "butterfly.fio": "size",
    "cross-stripe-verify.fio": "offset_increment=124g",
    "enospc-pressure.fio": "rw=randtrim",
    "xnvme-zoned.fio": "zonemode=zbd",
    "zbd-rand-write.fio": "max_open_zones=32",
    "zbd-seq-read.fio": "zonemode=zbd",
}
"""Examples with simple engines that are refused, each with the key that stands against it."""


def simple_examples() -> Iterator[Path]:
    """Examples that name no other engine than the simple ones."""
    for path in sorted(examples_or_skip().glob("*.fio")):
        engines = re.findall(r"^\s*ioengine\s*=\s*(\w+)", path.read_text("utf-8"), re.MULTILINE)
        if set(engines) <= set(SIMPLE):
            yield path


@pytest.mark.usefixtures("engine_is_built")
def test_examples_run_or_name_the_key_that_stands_against_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    ran, refused = [], {}
    for path in simple_examples():
        try:
            found = nl.fio(path, device=DEVICE, most_requests=2_000)
        except NandlabError as error:
            refused[path.name] = str(error)
            continue
        assert all(row["requests"] > 0 for row in found.rows)
        ran.append(path.name)
    assert set(refused) == set(REFUSED_EXAMPLES)
    for name, key in REFUSED_EXAMPLES.items():
        assert f": {key}" in refused[name], refused[name]
    assert len(ran) == 31


# Bad input

BAD = {
    "an option before a section": ("rw=read\n[a]\nsize=1m\n", ":1: rw=read: it stands before any"),
    "an unknown key": ("[a]\nblocsize=4k\n", ":2: blocsize=4k: fio has no such key; did you mean"),
    "a negative size": ("[a]\nsize=-1\n", ":2: size=-1: -1 is no size; write"),
    "an unknown suffix": ("[a]\nsize=1x\n", ":2: size=1x: 1x is no size"),
    "no size": ("[a]\nrw=read\n", ":1: size: it is missing; add size=1g"),
    "a size beyond the device": ("[a]\nsize=1p\n", "do not fit on nvme-ssd"),
    "an enumeration with a blank": ("[a]\nsize=1m\nrw=raed\n", "must be one of"),
    "a flag that is none": ("[a]\nsize=1m\ndirect=2\n", ":3: direct=2: it must be 0 or 1"),
    "direct without a value": ("[a]\nsize=1m\ndirect\n", ":3: direct: it has no value"),
    "a command of a shell": ("[a]\nexec_prerun=rm x\n", "exec_prerun=rm x: it cannot be simulated"),
    "another engine": ("[a]\nsize=1m\nioengine=rbd\n", "ioengine=rbd: it must be one of"),
    "too many jobs": ("[a]\nsize=1m\nnumjobs=1000000\n", "numjobs=1000000: it must be 1 to 4096"),
    "a property of the machine": ("[a]\nsize=1m\nnumjobs=$ncpus\n", "$ncpus is a property"),
    "verify": ("[a]\nsize=1m\nrw=write\nverify=md6\n", "verify=md6: fio has no such check; did"),
    "verify for a time": (
        "[a]\nsize=1m\nrw=write\nverify=md5\ntime_based\nruntime=1s\n",
        "verify=md5: the engine verifies whole passes; write loops",
    ),
    "another run's data": (
        "[a]\nsize=1m\nverify_only=1\n",
        "verify_only=1: it cannot be simulated",
    ),
    "shares above 100": ("[a]\nsize=1m\nbssplit=4k/60:8k/60\n", "must be 100 together"),
    "a share that is none": ("[a]\nsize=1m\nbssplit=4k/x\n", "bssplit=4k/x: x is no size"),
    "a split of no sector": ("[a]\nsize=1m\nbssplit=100/50:4k/50\n", "it must be 512 to 1g"),
    "a range that falls": ("[a]\nsize=1m\nbsrange=8k-4k\n", "from the larger size to the smaller"),
    "a rate of bytes with sizes": (
        "[a]\nsize=1m\nrw=write\nbssplit=4k/50:8k/50\nrate=1m\n",
        "rate=1m: with requests of several sizes the engine has a rate of requests",
    ),
    "zones of a device": (
        "[a]\nsize=1m\nzonemode=zbd\n",
        "zonemode=zbd: the devices have no zones",
    ),
    "zones without a size": ("[a]\nsize=1m\nzonemode=strided\n", "zones need a zonesize"),
    "no criterion": ("[a]\nsize=1m\nss=iop:1%\n", "ss=iop:1%: fio has no such criterion; did you"),
    "no window": ("[a]\nsize=1m\nss=iops:1%\n", "ss=iops:1%: it needs ss_dur of at least 2 s"),
    "no limit": ("[a]\nsize=1m\nss=iops:nan%\nss_dur=3s\n", "its limit must be above 0"),
    "two devices": (
        "[a]\nfilename=/dev/a\n[b]\nfilename=/dev/b\n",
        ":4: filename=/dev/b: the simulation has one device; write /dev/a",
    ),
    "a device and a file": (
        "[a]\nfilename=/dev/a\n[b]\nsize=1m\n",
        ":3: filename: other jobs work on the device itself, /dev/a",
    ),
    "an offset of no sector": (
        "[a]\nsize=1m\noffset=100\n",
        "offset=100: it must be whole sectors",
    ),
    "an end of others": (
        "[a]\nsize=1m\nexitall\nexit_what=one\n",
        "exit_what=one: it must be one of",
    ),
    "a target without a window": (
        "[a]\nsize=1m\nlatency_target=5ms\n",
        "latency_target=5ms: it needs a window; add latency_window=5s",
    ),
    "a target with a rate": (
        "[a]\nsize=1m\nrate_iops=9\nlatency_target=5ms\nlatency_window=1s\n",
        "the engine searches for a depth without rate_iops; take rate_iops out",
    ),
    "priorities by size": (
        "[a]\nsize=1m\ncmdprio_bssplit=4k\n",
        "cmdprio_bssplit=4k: it needs SIZE/PERCENT",
    ),
    "time_based alone": ("[a]\nsize=1m\ntime_based\n", "time_based: it needs a runtime"),
    "a zipf of one": (
        "[a]\nsize=1m\nrandom_distribution=zipf:1\n",
        "theta must be above 0, and not 1",
    ),
    "a pareto of one": (
        "[a]\nsize=1m\nrandom_distribution=pareto:1\n",
        "it must lie between 0 and 1",
    ),
    "blocks of no sector": ("[a]\nsize=1m\nbs=1000\n", "bs=1000: it must be 512 to 1g"),
    "no name": ("[]\nsize=1m\n", ":1: []: a section needs a name"),
    "no job": ("[global]\nsize=1m\n", "it holds no job"),
    "a missing file": ("[a]\ninclude nowhere\n", ":2: include=nowhere: there is no such file"),
    "itself": ("[a]\ninclude job.fio\n", "the file includes itself"),
    "two files": ("[a]\nsize=1m\nfilename=a:b\n", "filename=a:b: the engine has one file for"),
    "days": ("[a]\nsize=1m\ntime_based\nruntime=2d\n", "runtime=2d: it is longer than a day"),
    "a blank before a word": ("[a]\nsize=1m\nrw = read\n", "fio takes no blank before a word"),
    "percentiles": ("[a]\nsize=1m\npercentile_list=101\n", "percentile_list=101: it must be"),
    "one rate of two": (
        "[a]\nsize=1m\nrw=rw\nrate_iops=9,\n",
        "a rate of both directions, or of none",
    ),
    "syncs at depth": (
        "[a]\nsize=1m\nrw=write\nioengine=libaio\ndirect=1\niodepth=4\nfsync=1\n",
        "fsync=1: the engine does not measure it together with iodepth",
    ),
}


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_message_with_a_place(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, message = BAD[name]
    path = job(tmp_path, text)
    assert main(["fio", str(path), "--device", DEVICE]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    assert line.startswith(f"nandlab: error: {tmp_path}")
    assert message in line


def test_what_is_refused_as_bad_is_taken_when_it_is_good(tmp_path: Path) -> None:
    good = "[a]\nsize=1m\ndirect=1\nnumjobs=2\nbs=512\nrandom_distribution=zipf:0.9\nverify=0\n"
    (section,) = read_job_file(job(tmp_path, good), {})
    found = settings_of(section)
    assert (found.sizes.least, found.processes, found.mode) == (512, 2, "direct")


def test_garbage_is_no_job_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = Random(1)
    path = tmp_path / "garbage"
    for content in (b"\0" * 9, numbers.randbytes(4096), b"[a]\nsize=\xff\n", b"[a" * 600_000):
        path.write_bytes(content)
        assert main(["fio", str(path), "--parse-only"]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    for place in (tmp_path, tmp_path / "nowhere", Path("/dev/zero")):
        assert main(["fio", str(place), "--parse-only"]) == 2
        assert str(place) in capsys.readouterr().err


def test_files_include_each_other_to_a_depth(tmp_path: Path) -> None:
    for number in range(40):
        job(tmp_path, f"include f{number + 1}\n", f"f{number}")
    job(tmp_path, "rw=write\n", "f40")
    with pytest.raises(NandlabError, match="more than 16 files include each other"):
        read_job_file(job(tmp_path, "[a]\ninclude f0\n"), {})
    (section,) = read_job_file(job(tmp_path, "[a]\ninclude f30\nbs=4k\n"), {})
    assert [one.word for one in section.own] == ["--rw=write", "--bs=4k"]
    job(tmp_path, "[b]\n", "f40")
    with pytest.raises(NandlabError, match="an included file holds no section"):
        read_job_file(job(tmp_path, "[a]\ninclude f30\n"), {})


@pytest.mark.usefixtures("engine_is_built")
def test_a_device_may_be_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "devices" / f"{DEVICE}.toml").read_text(encoding="utf-8")
    slow = text.replace("command_overhead_ns = 21500", "command_overhead_ns = 1021500")
    assert slow != text
    (tmp_path / "slow.toml").write_text(slow, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    path = job(tmp_path, "[a]\nrw=randread\nsize=1m\ndirect=1\n")
    known, own = (nl.fio(path, device=name) for name in (DEVICE, "slow.toml"))
    means = [found.fio["jobs"][0]["read"]["lat_ns"]["mean"] for found in (known, own)]
    assert means[1] - means[0] == pytest.approx(1e6, rel=0.01)
    # The report names the file as it was given.
    assert own.answer["conditions"]["device"] == "slow.toml"
    (tmp_path / "bad.toml").write_text(text.replace("channels", "chanels"), encoding="utf-8")
    with pytest.raises(NandlabError, match=r"(?s)bad\.toml.*did you mean `channels`"):
        nl.fio(path, device="bad.toml")
    with pytest.raises(NandlabError, match=r"nosuch\.toml"):
        nl.fio(path, device="nosuch.toml")


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize("option", ["device", "scheduler", "board", "precondition"])
def test_options_name_what_there_is(option: str, tmp_path: Path) -> None:
    path = job(tmp_path, ONE)
    wrong: Any = {"device": DEVICE, option: "nosuch"}
    with pytest.raises(NandlabError, match=f"^--{option}: .*nosuch"):
        nl.fio(path, **wrong)
    with pytest.raises(NandlabError, match=r"^--device is missing"):
        nl.fio(path)


@pytest.mark.usefixtures("engine_is_built")
def test_too_many_requests_are_refused_before_and_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = job(tmp_path, "[a]\nsize=4k\ndirect=1\nloops=1000000000000\n")
    with pytest.raises(NandlabError, match=r":4: loops=.*: job a makes 1,000,000,000,000 requests"):
        nl.fio(endless, device=DEVICE)
    limited = nl.fio(endless, device=DEVICE, most_requests=500)
    assert limited.rows[0]["requests"] == 500
    assert "ended after 500 requests" in limited.notes[-1]
    monkeypatch.setattr("nandlab.api.fio._MOST_REQUESTS", 500)
    timed = job(tmp_path, "[a]\nsize=4k\ndirect=1\ntime_based\nruntime=1h\n")
    with pytest.raises(NandlabError, match=r":5: runtime=1h: job a: ended after 500 requests"):
        nl.fio(timed, device=DEVICE)
    assert nl.fio(job(tmp_path, "[a]\nsize=4k\ndirect=1\nloops=500\n"), device=DEVICE).notes == ()


# Results


@pytest.mark.usefixtures("engine_is_built")
def test_a_job_makes_its_requests(tmp_path: Path) -> None:
    found = nl.fio(job(tmp_path, ONE), device=DEVICE)
    (one,) = found.fio["jobs"]
    read = one["read"]
    assert read["total_ios"] == 1024
    assert read["io_bytes"] == 4 << 20
    assert read["bw_bytes"] == read["io_bytes"] * 1000 // read["runtime"]
    assert sum(read["clat_ns"]["bins"].values()) == read["clat_ns"]["N"] == 1024
    # One request at a time: their latencies fill the time.
    assert read["clat_ns"]["mean"] * 1024 / 1e6 == pytest.approx(read["runtime"], abs=1)
    assert one["iodepth_level"]["1"] == 100
    shares = (*one["latency_ns"].values(), *one["latency_us"].values(), *one["latency_ms"].values())
    assert sum(shares) == pytest.approx(100, abs=0.2)
    assert found.text == nl.fio(job(tmp_path, ONE), device=DEVICE).text
    # One at a time a read of this device takes the same time wherever it is; eight meet on dies.
    deep = job(tmp_path, ONE + "ioengine=libaio\niodepth=8\n")
    assert nl.fio(deep, device=DEVICE).text != nl.fio(deep, device=DEVICE, seed=2).text


@pytest.mark.usefixtures("engine_is_built")
def test_depth_rate_time_ramp_and_syncs_are_those_of_the_job(tmp_path: Path) -> None:
    head = "[global]\nsize=4m\ndirect=1\nioengine=libaio\n[a]\n"
    deep = nl.fio(job(tmp_path, f"{head}rw=randread\niodepth=16\n"), device=DEVICE)
    assert deep.fio["jobs"][0]["iodepth_level"]["16"] > 95
    paced = f"{head}rw=randread\niodepth=32\nrate_iops=1000\ntime_based\nruntime=2\nramp_time=1\n"
    read = nl.fio(job(tmp_path, paced), device=DEVICE).fio["jobs"][0]["read"]
    assert read["runtime"] == 2000
    assert read["total_ios"] == pytest.approx(2000, abs=2)
    assert (read["bw_samples"], read["iops_samples"]) == (4, 4)
    assert read["iops_mean"] == pytest.approx(1000, abs=2)
    slow = paced.replace("rate_iops=1000", "rate_iops=4").replace("ramp_time=1\n", "")
    # A process waits for the end of its time after its last request.
    assert nl.fio(job(tmp_path, slow), device=DEVICE).fio["jobs"][0]["read"]["runtime"] == 2000
    synced = f"{head}rw=write\nfsync=8\nnumber_ios=256\n"
    one = nl.fio(job(tmp_path, synced), device=DEVICE).fio["jobs"][0]
    # After 8, 16 ... writes, and none after the last: as fio 3.33 does.
    assert (one["write"]["total_ios"], one["sync"]["total_ios"]) == (256, 31)
    assert one["sync"]["lat_ns"]["min"] > 0
    data = nl.fio(job(tmp_path, synced.replace("fsync", "fdatasync")), device=DEVICE)
    assert data.fio["jobs"][0]["sync"]["total_ios"] == 0


@pytest.mark.usefixtures("engine_is_built")
def test_groups_and_stages(tmp_path: Path) -> None:
    text = (
        "[global]\nsize=1m\ndirect=1\n[a]\nnumjobs=2\n[b]\nstonewall\nnumjobs=3\ngroup_reporting\n"
    )
    jobs = nl.fio(job(tmp_path, text), device=DEVICE).fio["jobs"]
    assert [(one["jobname"], one["groupid"]) for one in jobs] == [("a", 0), ("a", 0), ("b", 1)]
    assert [one["read"]["total_ios"] for one in jobs] == [256, 256, 768]
    waiting = "[global]\nsize=1m\ndirect=1\n[a]\n[b]\nwait_for=a\n"
    jobs = nl.fio(job(tmp_path, waiting), device=DEVICE).fio["jobs"]
    assert [one["groupid"] for one in jobs] == [0, 0]
    with pytest.raises(NandlabError, match="write stonewall instead"):
        nl.fio(job(tmp_path, f"{waiting}[c]\n"), device=DEVICE)


@pytest.mark.usefixtures("engine_is_built")
def test_logs_hold_every_request(tmp_path: Path) -> None:
    text = f"{ONE}write_lat_log=some/lat\nwrite_iops_log\nlog_avg_msec=0\n"
    folder = tmp_path / "logs"
    found = nl.fio(job(tmp_path, text), device=DEVICE, logs=folder)
    assert sorted(path.name for path in folder.iterdir()) == [
        "a_iops.1.log", "lat_clat.1.log", "lat_lat.1.log", "lat_slat.1.log"
    ]  # fmt: skip
    rows = [line.split(", ") for line in (folder / "lat_lat.1.log").read_text().splitlines()]
    latency = found.fio["jobs"][0]["read"]["lat_ns"]
    assert len(rows) == latency["N"]
    assert sum(int(row[1]) for row in rows) / len(rows) == pytest.approx(latency["mean"])
    assert {(row[2], row[3], row[4]) for row in rows} == {("0", "4096", "0")}
    assert (folder / "lat_slat.1.log").read_text() == ""
    assert "no log is written" in nl.fio(job(tmp_path, text), device=DEVICE).notes[-1]


# The report beside that of fio


def paths(value: Any, place: str = "") -> Iterator[str]:
    """The keys of JSON at every level, in their order; the options of jobs and bins left out."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield f"{place}/{key}"
            if key not in ("global options", "job options", "bins"):
                yield from paths(one, f"{place}/{key}")
    elif isinstance(value, list):
        for one in value:
            yield from paths(one, f"{place}[]")


def real(tmp_path: Path, text: str, *forms: str) -> str:
    """What fio says of a job file on its engine `null`."""
    path = job(tmp_path, re.sub("ioengine=.*", "ioengine=null", text), "real.fio")
    done = subprocess.run(
        [fio_or_skip(), f"--output-format={','.join(forms)}", str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    return done.stdout


REPORTED = {
    "one job": "[a]\nsize=1m\nioengine=psync\ndirect=1\n",
    "mixed": "[global]\nioengine=libaio\nsize=1m\n[a]\nrw=randrw\niodepth=4\ndirect=1\n[b]\n",
    "group": "[global]\nioengine=psync\nsize=1m\ndirect=1\ngroup_reporting\n[a]\nnumjobs=2\n",
    "percentiles": "[a]\nioengine=psync\nsize=1m\nlat_percentiles=1\nclat_percentiles=0\n",
    "list": "[a]\nioengine=psync\nsize=1m\ndirect=1\nrw=rw\npercentile_list=99.5:1:50\n",
    "syncs": "[a]\nioengine=psync\nsize=1m\ndirect=1\nrw=write\nfsync=4\n",
}


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize("form", ["json", "json+"])
@pytest.mark.parametrize("name", REPORTED)
def test_json_has_the_keys_of_fio(
    name: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = list(paths(json.loads(real(tmp_path, REPORTED[name], form))))
    path = job(tmp_path, REPORTED[name])
    assert main(["fio", str(path), "--device", DEVICE, "--output-format", form]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(paths(found)) == expected
    # The comparison sees a key that is missing at the deepest level.
    del found["jobs"][0]["read"]["clat_ns"]["stddev"]
    assert list(paths(found)) != expected


def test_json_is_written_as_fio_writes_it(tmp_path: Path) -> None:
    text = real(tmp_path, REPORTED["mixed"], "json+")
    assert text_of(json.loads(text)) == text.strip()


def test_bins_and_percentiles_are_those_of_fio(tmp_path: Path) -> None:
    text = (
        "[a]\nioengine=null\nsize=64m\nrw=randread\niodepth=4\nthinktime=1us\nlat_percentiles=1\n"
    )
    (one,) = json.loads(real(tmp_path, text, "json+"))["jobs"]
    for kind in ("clat_ns", "lat_ns"):
        found = one["read"][kind]
        bins = {int(middle): count for middle, count in found["bins"].items()}
        assert len(bins) > 5
        assert all(middle_of_bin(middle) == middle for middle in bins)
        latency = Latency(count=found["N"], bins=bins)
        wanted = [float(percent) for percent in found["percentile"]]
        assert latency.percentiles(wanted) == list(found["percentile"].values())
    few = "[a]\nioengine=null\nsize=16k\nthinktime=1us\npercentile_list=25:50:75\n"
    (one,) = json.loads(real(tmp_path, few, "json+"))["jobs"]
    found = one["read"]["clat_ns"]
    bins = {int(middle): count for middle, count in found["bins"].items()}
    assert found["N"] == 4
    shown = Latency(count=4, bins=bins).percentiles([25, 50, 75])
    assert shown == list(found["percentile"].values())
    # A percentile that falls on the end of a bin is in this bin.
    assert Latency(count=4, bins={10: 2, 20: 2}).percentiles([25, 50, 75]) == [10, 10, 20]
    # An edge of a bin, which is no middle, would be seen.
    assert middle_of_bin(46_592) == 46_848 == middle_of_bin(47_103)
    assert middle_of_bin(46_591) != 46_848


@pytest.mark.parametrize("bs", ["512", "4k", "1m"])
@pytest.mark.parametrize("rw", ["read", "write"])
def test_lines_for_people_are_those_of_fio(rw: str, bs: str, tmp_path: Path) -> None:
    """The numbers of fio's JSON, in the lines that fio prints of the same run."""
    text = f"[a]\nioengine=null\nsize=4g\nio_size=400g\nrw={rw}\nbs={bs}\nruntime=1\n"
    whole = real(tmp_path, text, "normal", "json+")
    # fio prints the JSON in the middle of the lines.
    end = whole.rindex("}") + 1
    (one,) = json.loads(whole[whole.index("{") : end])["jobs"]
    told = whole[end:]
    found = one[rw]
    clat = found["clat_ns"]
    bins = {int(middle): count for middle, count in clat["bins"].items()}
    latency = Latency(clat["N"], clat["min"], clat["max"], clat["mean"], clat["stddev"], bins)
    shown = Direction(
        found["total_ios"],
        found["io_bytes"],
        found["runtime"],
        latency,
        Windows(*(found[f"bw_{key}"] for key in ("min", "max", "mean", "dev", "samples"))),
        Windows(*(found[f"iops_{key}"] for key in ("min", "max", "mean", "stddev", "samples"))),
    )
    (section,) = read_job_file(tmp_path / "real.fio", {})
    settings = settings_of(type(section)(section.name, (), section.own[1:], "", 1))
    lines = list(direction_lines(rw, shown, settings, found["bw_agg"]))
    # fio tells two latencies; those of the engine are one.
    ours = [line for line in lines if not line.startswith("     lat (")]
    theirs = [line for line in told.splitlines() if not line.startswith("     lat (")]
    begin = next(number for number, line in enumerate(theirs) if line.startswith(f"  {rw}: IOPS"))
    assert ours == theirs[begin : begin + len(ours)]


def test_numbers_have_as_many_digits_as_in_fio() -> None:
    told = {
        (966_000, 4): "966k", (9_999, 4): "9999", (10_000, 4): "10.0k", (8_308_200, 6): "8308.2k",
        (914_373, 6): "914373", (19_558_499, 6): "19558k", (19_558_500, 6): "19559k",
        (6_300_850, 6): "6300.8k", (6_300_960, 6): "6301.0k",
    }  # fmt: skip
    assert {key: scaled(*key) for key in told} == told
    assert scaled(64 << 20, 4, base=1024, unit="B") == "64.0MiB"
    assert scaled(3060 << 10, 4, base=1024, unit="B/s") == "3060KiB/s"


# The table of options and its page


def test_every_key_of_fio_has_a_row() -> None:
    assert [option.name for option in OPTIONS] == sorted({option.name for option in OPTIONS})
    assert all(option.why for option in OPTIONS if option.verdict != "honoured")
    told = subprocess.run([fio_or_skip(), "--cmdhelp"], capture_output=True, text=True, check=True)
    names = {line.split(":")[0].strip() for line in told.stdout.splitlines() if ":" in line}
    assert len(names) > 200
    assert names <= set(BY_NAME)
    assert "nosuchkey" not in BY_NAME


def test_the_page_is_made_from_the_table(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    check = [sys.executable, "scripts/fio_page.py", "--check"]
    assert subprocess.run(check, cwd=root, check=False).returncode == 0, (
        "docs/fio.md is old: make docs"
    )
    page = (root / "docs" / "fio.md").read_text(encoding="utf-8")
    assert all(f"`{option.name}`" in page for option in OPTIONS)
    assert "`nosuchkey`" not in page


# Values


def test_sizes_are_those_of_fio(tmp_path: Path) -> None:
    """fio 3.33 tells the size of a request in its first line."""
    told = {"0x1000": 4096, "4k": 4096, "4K": 4096, "4kb": 4096, "4ki": 4096, "4kib": 4000}
    told |= {"1m": 1 << 20, "1Mib": 1_000_000}
    cases = [("1024", text) for text in told]
    for base, text in [*cases, ("1000", "4k"), ("1000", "4ki"), ("1000", "4kib")]:
        job_text = f"[a]\nkb_base={base}\nbs={text}\nsize=8192000\nioengine=null\n"
        (one,) = json.loads(real(tmp_path, job_text, "json"))["jobs"]
        (section,) = read_job_file(tmp_path / "real.fio", {})
        given = next(given for given in section.own if given.key == "bs")
        size = bytes_of(given, text, int(base))
        read = one["read"]
        assert size == pytest.approx(read["io_bytes"] / read["total_ios"], rel=1e-9)
        assert base == "1000" or size == told[text]


@pytest.mark.parametrize(
    ("options", "depth"),
    [("ioengine=psync\ndirect=1", 1), ("ioengine=libaio", 1), ("ioengine=libaio\ndirect=1", 8)],
)
def test_only_direct_asynchronous_requests_queue(options: str, depth: int, tmp_path: Path) -> None:
    path = job(tmp_path, f"[a]\nsize=1m\niodepth=8\n{options}\n")
    (section,) = read_job_file(path, {})
    found = settings_of(section)
    assert found.iodepth == depth
    assert bool(found.notes) is (depth == 1)


KEYS_OF_THE_ENGINE = {
    "rate below one a second": ("rw=read\nrate=1250\n", 'rate_interval = "3276800us"'),
    "start": ("startdelay=4\n", 'startdelay = "4000000us"'),
    "backwards": ("rw=read:-8k\n", "gap_bytes = -8192"),
    "poisson": ("rate_iops=50\nrate_process=poisson\n", 'rate_process = "poisson"'),
    "zones": (
        "rw=randread\nrandom_distribution=zoned:50/5:30/15:20/\n",
        'random_distribution = "zoned:50/5:30/15:20/"',
    ),
    "priority": ("prioclass=3\nprio=2\n", "prioclass = 3"),
    "urgent": ("cmdprio_percentage=20\n", "cmdprio_percentage = [20, 20]"),
}


@pytest.mark.parametrize("name", KEYS_OF_THE_ENGINE)
def test_keys_that_the_engine_carries_out(tmp_path: Path, name: str) -> None:
    from nandlab.api.fio import _conditions
    from nandlab.fio_jobs.jobs import plan

    text, line = KEYS_OF_THE_ENGINE[name]
    path = job(tmp_path, f"[a]\nioengine=libaio\ndirect=1\nsize=1m\nnumber_ios=4\n{text}")
    conditions = _conditions(DEVICE, "noop", "emulated-pc", "fill", 1, None)
    study = plan([settings_of(section) for section in read_job_file(path, {})], conditions).study
    assert line in study.splitlines()
    found = nl.fio(path, device=DEVICE).fio["jobs"][0]
    assert found["read"]["total_ios"] == 4
    if name == "start":
        assert found["elapsed"] >= 4
    if name == "rate below one a second":
        # Four requests, three intervals.
        assert found["read"]["runtime"] == pytest.approx(3 * 3276.8, abs=2)


def test_a_group_is_as_long_as_its_process_that_begins_last(tmp_path: Path) -> None:
    text = (
        "[global]\nsize=1m\nnumber_ios=4\ndirect=1\ngroup_reporting\n"
        "[early]\n[late]\nstartdelay=7\n"
    )
    [group] = nl.fio(job(tmp_path, text), device=DEVICE).fio["jobs"]
    assert group["elapsed"] >= 7
    # Delays are no time of a job.
    assert group["read"]["runtime"] < 1000


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("random_distribution=zoned:50/50\n", "100 together"),
        ("rate_process=poisson\n", "it needs a rate"),
        ("rw=randread:8\n", "cannot be simulated"),
        ("prioclass=4\n", "must be 0 to 3"),
        ("rw=read:100\n", "whole sectors"),
        ("rate=0\n", "above 0"),
    ],
)
def test_wrong_values_of_these_keys_are_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(NandlabError, match=says):
        nl.fio(job(tmp_path, f"[a]\nsize=1m\n{text}"), device=DEVICE, parse_only=True)
