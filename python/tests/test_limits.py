"""Numbers at the ends of their ranges, in every option and every argument of a script.

A command ends by itself or when it is asked to, with one message where something is wrong: no
traceback, no panic, no abort for want of memory. The options come from the CLI, so that a new one
is covered by itself. `NANDLAB_LONG_TESTS=1` tries all values on all file systems.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_table import commands
from long_tests import IS_LONG
from mqsim_inputs import Files
from strace_logs import LOG

pytestmark = pytest.mark.usefixtures("engine_is_built")

ALL_VALUES = (0, 1, 2**31, 2**32 - 1, 2**32, 10**11, 2**63, 2**64)
VALUES = ALL_VALUES if IS_LONG else (0, 2**31, 2**32 - 1, 2**63)
ENDS_WITHIN_S = 2.0
WORKLOAD = Path(__file__).parents[2] / "workloads/compare/update.toml"
SPACE = Path(__file__).parents[2] / "workloads/search/small-chip.toml"
STUDY = Path(__file__).parents[2] / "studies/ftl-windows/study.toml"
RUNNER = Path(__file__).with_name("limited_commands.py")
NEEDS_A_MACHINE = {("capture",), ("serve-crash",), ("serve-raw",)}
"""Boot a kernel before they look at most of their numbers, or at once: tests of their own."""

SEARCH = ("--fs", "jffs2", "--blocks", "32", "--pages-per-block", "16", "--runs", "1")

SCRIPTS = {
    "jffs2": "{}\n",
    "yaffs2": "{}\n",
    "ubifs": "cmd ubiattach -m 0 -d 0 /dev/ubi_ctrl\ncmd ubimkvol /dev/ubi0 -N a -m\n"
    "mount ubifs ubi0:a -\n{}\numount\n",
    "fat": "{}\n",
    "nilfs2": "{}\n",
}
LINES = (
    "put a 644 # 4096 x 1",
    "put a 644 8k # z 1",
    "put a 644 8k 4096 x #",
    "put a 644 # 4096 z 1 fsynceach",
    "putn a # 3 644 4k 4096 x 1",
    "putn a 0 # 644 4k 4096 x 1",
    "append a # 4096 x 1",
    "write a # 4k 4096 x 1",
    "write a 0 # 4096 x 1",
    "rwrite a # 4096 64k 1 x 1",
    "rwrite a 4 # 64k 1 x 1",
    "rwrite a 4 4096 # 1 x 1",
    "rwrite a 4 4096 64k # x 1",
    "read a #",
    "read a # 0 4k",
    "read a 4096 # 4k",
    "read a 4096 0 #",
    "write a # 2 1 h 6162",
    "write a 0 2 # h 6162",
    "write a 0 # 1 h 6162",
    "truncate a #",
    "unlinkn a 0 #",
    "chown a # 0",
    "utime a # 0",
    "utime a 0 -#",
    "mknod b 644 c # 1",
    "mknod b 644 c 1 #",
    "sleep #",
    "settle #",
    "save s #",
)
"""Lines of a script, with `#` where the number stands."""

HARNESS_LINES = (
    "mount blocks=#",
    "cmd ubiformat /dev/mtd0 -q -y -Q #",
    "cmd ubiformat /dev/mtd0 -q -y -Q 1 -O #",
    "cmd ubiattach -m 0 -d 0 -O # /dev/ubi_ctrl",
)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, ...], list[str]]:
    """A short command line for every command, to which one option is added."""
    folder = tmp_path_factory.mktemp("bases")
    tree = folder / "tree"
    tree.mkdir()
    (tree / "file").write_text("text " * 1000, encoding="utf-8")
    script = folder / "script.ops"
    script.write_text("put a 644 8k 4096 x 1 fsync\nunlink a\n", encoding="utf-8")
    table = folder / "table.csv"
    table.write_text("time_us,pid,op,sync,sector,sectors\n0,1,R,1,8,8\n", encoding="utf-8")
    job = folder / "job.fio"
    job.write_text("[a]\nsize=64k\ndirect=1\n", encoding="utf-8")
    log = folder / "strace.log"
    log.write_text(LOG, encoding="ascii")
    image = folder / "image.jffs2"
    trace = folder / "trace.csv"
    lines = (f"{number * 10},host,0,Write,{number * 4096},4096,100\n" for number in range(1, 50))
    trace.write_text("".join(lines), encoding="utf-8")
    make = ["image", "make", "--fs", "jffs2", "--from", str(tree)]
    done = subprocess.run(
        [sys.executable, "-m", "nandlab", *make, str(image)], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    shown = str(image)
    return {
        ("run",): ["run", str(STUDY), "--dry-run"],
        ("replay",): ["replay", str(trace), "--ftl", "page"],
        ("life",): ["life", str(trace), "--ftl", "page", "--blocks", "64"],
        ("check",): ["check", "greedy"],
        ("fio",): ["fio", str(job), "--device", "nvme-ssd"],
        ("mqsim",): ["mqsim", *Files(folder).paths],
        ("schedule",): ["schedule", str(table), "--scheduler", "noop"],
        ("script",): ["script", str(script), "--fs", "jffs2"],
        ("strace-import",): ["strace-import", str(log)],
        ("crash",): ["crash", str(script), "--fs", "jffs2", "--jobs", "1"],
        ("crash-search",): ["crash-search", *SEARCH],
        ("readings",): ["readings", "write-amplification"],
        ("search",): ["search", str(SPACE), "--objective", "waf", "--runs", "1"],
        ("validate",): [],
        ("serve",): [],
        ("serve-ctl",): [],
        ("serve-replay",): [],
        ("list",): [],
        ("explain",): ["explain", "bast", "--ops", "W1"],
        ("convert",): ["convert", str(trace), str(folder / "converted.parquet")],
        ("image", "make"): [*make, str(folder / "made.jffs2")],
        ("image", "ls"): ["image", "ls", shown],
        ("image", "extract"): ["image", "extract", shown, str(folder / "extracted")],
        ("image", "check"): ["image", "check", shown],
        ("image", "info"): ["image", "info", shown],
        ("image", "diff"): ["image", "diff", shown, shown],
        ("compare",): ["compare", "--fs", "jffs2", "--workload", str(WORKLOAD)],
        ("report",): [],
        ("index",): [],
        ("new",): ["new", "study", "mine", "--out", str(folder / "new")],
        ("completion",): [],
    }


def _all_end_well(cases: list[list[str]], tmp_path: Path) -> None:
    """Runs the commands; what does not end as promised is told, all of it."""
    log = tmp_path / "log"
    begun = 0
    faults = []
    while begun < len(cases):
        log.write_text("", encoding="utf-8")
        process = subprocess.run(
            [sys.executable, str(RUNNER), str(log)],
            input=json.dumps(cases[begun:]),
            capture_output=True,
            encoding="utf-8",
            check=False,
            cwd=tmp_path,
            # Each call has a worker thread, and glibc gives threads arenas of their own, which keep
            # what is freed: a dozen calls that take 0.5 GB each came to the limit.
            env=os.environ | {"MALLOC_ARENA_MAX": "1"},
        )
        records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        done = [record for record in records if "number" in record]
        for record in done:
            fault = _fault(record)
            if fault:
                faults.append(f"{' '.join(cases[begun + record['number']])}: {fault}")
        begun += len(done)
        if len(done) < len([record for record in records if "begins" in record]):
            end = process.stderr.strip().splitlines()[-3:]
            faults.append(f"{' '.join(cases[begun])}: exit {process.returncode}, {end}")
            begun += 1
        else:
            assert begun == len(cases), process.stderr
    assert not faults, "\n".join(faults)


def _fault(record: dict[str, object]) -> str | None:
    code, errors = record["code"], str(record["errors"])
    if code not in (0, 1, 2, 3, 143):
        return f"exit code {code}"
    if any(sign in errors for sign in ("Traceback", "panicked", "internal error", "line 1 column")):
        return errors
    # What is wrong in a TOML file is shown with the line and a caret below the message.
    if code == 2 and not any(line.startswith("nandlab: error: ") for line in errors.splitlines()):
        return f"no message: {errors!r}"
    after_s = record["after_s"]
    assert isinstance(after_s, float)
    return f"{after_s:.1f} s after the signal" if after_s > ENDS_WITHIN_S else None


def test_every_command_has_a_base(bases: dict[tuple[str, ...], list[str]]) -> None:
    assert set(commands()) == set(bases) | NEEDS_A_MACHINE


@pytest.mark.parametrize("words", sorted(set(commands()) - NEEDS_A_MACHINE), ids=" ".join)
def test_numbers_in_options(
    words: tuple[str, ...], bases: dict[tuple[str, ...], list[str]], tmp_path: Path
) -> None:
    cases = []
    for option in commands()[words]:
        if option.takes_number:
            values = [str(value) for value in VALUES] + [f"{VALUES[-1]}GiB", "-1"]
            cases += [[*bases[words], option.name, value] for value in values]
            if words == ("image", "make"):
                other = [*bases[words], "--fs", "ubifs", "--bare"]
                fs = [word for word in other if word != "jffs2"]
                fs.remove("--fs")
                cases += [[*fs, option.name, str(value)] for value in VALUES]
    if words == ("schedule",):
        cases += [[*bases[words], "--device", "sd", "--queue-depth", str(v)] for v in VALUES]
    _all_end_well(cases, tmp_path)


@pytest.mark.parametrize("file_system", SCRIPTS if IS_LONG else ("jffs2", "ubifs", "nilfs2"))
def test_numbers_in_scripts(file_system: str, tmp_path: Path) -> None:
    cases = []
    for index, line in enumerate((*LINES, *HARNESS_LINES)):
        for value in VALUES:
            script = tmp_path / f"{index}-{value}.ops"
            first = "" if line in HARNESS_LINES else "put a 644 8k 4096 x 1\n"
            text = first + line.replace("#", str(value))
            if line not in HARNESS_LINES:
                text = SCRIPTS[file_system].format(text)
            script.write_text(text, encoding="utf-8")
            options = [] if file_system == "ubifs" else ["--fs", file_system]
            cases.append(["script", str(script), *options, "--keep-going"])
    _all_end_well(cases, tmp_path)


@pytest.mark.parametrize("repeats", [2**31, 2**32 - 1, 2**32])
def test_repeats_of_other_combinations(repeats: int, tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    text = (STUDY.parents[1] / "sfq-emmc" / "study.toml").read_text(encoding="utf-8")
    study.write_text(
        f"{text}\n[[extra_runs]]\nrepeats = {repeats}\naxes = {{}}\n", encoding="utf-8"
    )
    _all_end_well([["run", str(study), "--dry-run"]], tmp_path)


def test_an_image_is_filled_up_beyond_the_memory(tmp_path: Path) -> None:
    """What fills it up is never in memory as a whole: it was, and ended the process."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_text("text", encoding="utf-8")
    image = tmp_path / "image"
    make = ["image", "make", "--fs", "ubifs", "--bare", "--from", str(tree), str(image)]
    _all_end_well([[*make, "--pad", "3GiB"]], tmp_path)
    small = [sys.executable, "-m", "nandlab", *make, "--pad", "20MiB"]
    assert subprocess.run(small, capture_output=True, check=False).returncode == 0
    assert image.stat().st_size == 20 << 20
    with image.open("rb") as file:
        file.seek(-(1 << 20), os.SEEK_END)
        assert file.read() == b"\xff" * (1 << 20)
