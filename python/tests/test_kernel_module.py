"""The scheduler as a kernel module: how it builds, and that it loses nothing in two kernels."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from kernel_lab import (
    SERIES,
    SOURCE,
    build_or_skip,
    build_root_or_skip,
    kernel_or_skip,
    modules_or_skip,
    patched_source,
    program_or_skip,
    run_script,
)
from long_tests import first_or_all, only_long

from nandlab import engine
from nandlab.vm import Kernel, VmRunError

CHECKPATCH_IGNORES = (
    "LINUX_VERSION_CODE",
    "CONSTANT_COMPARISON",
    "FILE_PATH_CHANGES",
)
"""What checkpatch minds in code that is for several kernels and outside their tree."""


LONGEST_WAIT_NS = 300_000_000
"""Of an old process beside eight short-lived ones, 5 ms a request: a round of nine takes 45 ms."""

ONLY_SIMULATED = ("orphans", "quasi_async")
"""Tunables that no kernel has: a choice that the paper leaves open, and one of the block layer."""

WAITS = re.compile(r"^short-lived (\S+) expiry=(on|off) longest_ns (\d+) ", re.MULTILINE)


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", "-C", str(SOURCE), *arguments]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def fake_headers(root: Path, release: str, version: str) -> None:
    numbers = zip(("MAJOR", "PATCHLEVEL", "SUBLEVEL"), version.split("."), strict=True)
    path = root / "usr/src" / f"linux-headers-{release}/include/generated/uapi/linux/version.h"
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"#define LINUX_VERSION_{name} {value}\n" for name, value in numbers))


def fake_source(root: Path, series: str, version: str) -> None:
    tree = root / "usr/src" / f"linux-source-{series}"
    (tree / "block").mkdir(parents=True)
    (tree / "block" / "elevator.h").write_text("/* an elevator */\n")
    numbers = zip(("VERSION", "PATCHLEVEL", "SUBLEVEL"), version.split("."), strict=True)
    (tree / "Makefile").write_text("".join(f"{name} = {value}\n" for name, value in numbers))


def test_a_build_without_headers_or_source_says_what_to_install(tmp_path: Path) -> None:
    places = (f"ROOT={tmp_path}", f"BUILD={tmp_path / 'build'}")
    done = make(*places)
    assert done.returncode != 0
    assert "no kernel has both its headers and its source" in done.stdout
    done = make(*places, "KVER=6.1.0-9-amd64")
    assert "install the package linux-headers of this kernel" in done.stdout
    fake_headers(tmp_path, "6.1.0-9-amd64", "6.1.9")
    done = make(*places, "KVER=6.1.0-9-amd64")
    assert done.returncode != 0
    assert "install the package linux-source-6.1" in done.stdout


def test_a_source_of_another_version_is_refused(tmp_path: Path) -> None:
    fake_headers(tmp_path, "6.1.0-9-amd64", "6.1.9")
    fake_source(tmp_path, "6.1", "6.1.10")
    done = make(f"ROOT={tmp_path}", f"BUILD={tmp_path / 'build'}", "KVER=6.1.0-9-amd64")
    assert done.returncode != 0
    assert "is Linux 6.1.10, but the headers" in done.stdout
    assert "are Linux 6.1.9: install the same version of both" in done.stdout
    assert not (tmp_path / "build" / "6.1.0-9-amd64" / "block").exists()


def test_the_private_headers_come_out_of_a_tarball(tmp_path: Path) -> None:
    fake_headers(tmp_path, "6.1.0-9-amd64", "6.1.9")
    fake_source(tmp_path, "6.1", "6.1.9")
    source = tmp_path / "usr/src/linux-source-6.1"
    tarball = Path(shutil.make_archive(str(source), "gztar", source.parent, source.name))
    headers = tmp_path / "usr/src/linux-headers-6.1.0-9-amd64"
    script = str(SOURCE / "prepare.sh")
    done = subprocess.run([script, headers, tarball, tmp_path / "block"], check=False)
    assert done.returncode == 0
    assert (tmp_path / "block" / "elevator.h").read_text() == "/* an elevator */\n"
    done = subprocess.run([script, headers, Path(script), tmp_path / "other"], check=False)
    assert done.returncode != 0


def test_dkms_builds_and_installs_what_the_makefile_makes() -> None:
    text = (SOURCE / "dkms.conf").read_text()
    settings = dict(re.findall(r'^([A-Z_]+(?:\[0\])?)="(.*)"$', text, re.MULTILINE))
    version = re.search(r'MODULE_VERSION\("(.*)"\)', (SOURCE / "sfq-iosched.c").read_text())
    assert version is not None
    assert settings["PACKAGE_VERSION"] == version[1]
    assert settings["BUILT_MODULE_NAME[0]"] == "sfq-iosched"
    assert settings["BUILT_MODULE_LOCATION[0]"] == "build/${kernelver}"
    assert settings["MAKE[0]"] == "make KVER=${kernelver}"


@pytest.mark.parametrize(
    ("kernel", "headers", "source", "reason"),
    [
        ("6.1.0-9-amd64", "6.1.9", "6.1.9", None),
        ("6.1.0-9-amd64", None, None, None),
        ("6.1.0-9-amd64", "6.1.9", None, "install linux-source-6.1, then run: dkms install"),
        ("6.1.0-9-amd64", "6.1.9", "6.1.10", "linux-source-6.1 is 6.1.10, the headers are 6.1.9"),
        ("6.17.4-amd64", "6.17.4", "6.17.4", "the module is for Linux 6.1 and 6.12"),
    ],
    ids=["whole", "no-headers", "no-source", "another-version", "another-series"],
)
def test_dkms_is_told_which_kernels_to_skip(
    kernel: str, headers: str | None, source: str | None, reason: str | None, tmp_path: Path
) -> None:
    if headers is not None:
        fake_headers(tmp_path, kernel, headers)
    if source is not None:
        fake_source(tmp_path, ".".join(source.split(".")[:2]), source)
    command = [str(SOURCE / "buildable.sh"), kernel, str(tmp_path / "usr/src")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == (0 if reason is None else 1)
    assert done.stderr.startswith(f"sfq-iosched: skipped for kernel {kernel}: {reason}") or (
        reason is None and not done.stderr
    )


READ_CONF = """
safe_source() { (. "$1"; echo "$sfq_kernel,${AUTOINSTALL:-no},$BUILD_EXCLUSIVE_KERNEL"); }
read_conf() { local kernelver=$1; safe_source "$2"; }
kernelver=(6.17.4-amd64)
action=$1
read_conf "$2" "$3"
"""
"""How dkms 3.0.10 reads dkms.conf: with a local `kernelver`, in which an automatic installation has
the kernel of an earlier build or nothing, and the kernel that it is for in the variable outside."""


@pytest.mark.parametrize(
    ("action", "of_an_earlier_build", "expected"),
    [
        ("autoinstall", "6.1.0-9-amd64", "6.17.4-amd64,no,^none$"),
        ("autoinstall", "", "6.17.4-amd64,no,^none$"),
        ("build", "6.17.4-amd64", "6.17.4-amd64,no,^none$"),
        ("build", "6.1.0-0-none", r"6.1.0-0-none,yes,^6\.(1|12)\."),
        ("status", "6.17.4-amd64", r"6.17.4-amd64,yes,^6\.(1|12)\."),
    ],
)
def test_dkms_does_not_try_what_cannot_be_built(
    action: str, of_an_earlier_build: str, expected: str
) -> None:
    command = ["bash", "-c", READ_CONF, "dkms", action, of_an_earlier_build]
    done = subprocess.run(
        [*command, str(SOURCE / "dkms.conf")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == expected
    assert ("skipped for kernel" in done.stderr) == ("none" in expected.split(",")[2])


@pytest.mark.parametrize("series", SERIES)
def test_the_module_builds_without_a_warning_and_tells_who_it_is(
    series: str, tmp_path: Path
) -> None:
    kernel = kernel_or_skip(series)
    module = build_or_skip(kernel, tmp_path)["sfq-iosched"]
    # A bare `make` finds the same kernel by itself.
    root = build_root_or_skip(kernel)
    done = make(f"ROOT={root}", f"BUILD={tmp_path}")
    assert (done.returncode, "warning" in done.stdout) == (0, False)
    told = subprocess.run(["/sbin/modinfo", module], capture_output=True, text=True, check=True)
    fields = dict(line.split(":", 1) for line in told.stdout.splitlines() if ":" in line)
    assert fields["license"].strip() == "GPL"
    assert fields["alias"].strip() == "sfq-iosched"
    assert fields["vermagic"].split()[0] == kernel.release
    assert all(fields[name].strip() for name in ("author", "description", "version"))


@pytest.mark.parametrize(
    "name",
    [
        "sfq-iosched.c",
        "sfq2-iosched.c",
        "sfq-compat.h",
        "tests/sfq-flash-card.c",
        "tests/sfq-test-disk.c",
    ],
)
def test_checkpatch_has_nothing_to_say(name: str) -> None:
    root = build_root_or_skip(kernel_or_skip("6.12"))
    checkpatch = next(root.glob("usr/src/linux-source-*/scripts/checkpatch.pl"))
    if shutil.which("perl") is None:
        pytest.skip("checkpatch needs perl")
    command = ["perl", str(checkpatch), "--no-tree", "--terse", "--ignore"]
    command += [",".join(CHECKPATCH_IGNORES), "-f", str(SOURCE / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("series", first_or_all(SERIES, ("6.12",)))
def test_nothing_is_lost_under_stress(
    series: str, tmp_path: Path, engine_is_built: None, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = kernel_or_skip(series)
    modules = modules_or_skip(kernel)
    script = (SOURCE / "tests" / "stress.sh").read_text()
    result = run_script(kernel, script, modules, tmp_path / "out", processors=2, deadline_s=3600.0)
    assert "test: stress passed" in result.console
    # The same tunables with the same defaults as in the simulator.
    tunables = dict(re.findall(r"^tunable (\w+) (\w+)$", result.console, re.MULTILINE))
    entry = next(row for row in engine.listing("schedulers") if row["name"] == "sfq")
    simulated = {item["name"]: str(item["default"]) for item in entry["parameters"]}
    assert tunables == {name: simulated[name] for name in simulated if name not in ONLY_SIMULATED}
    with capsys.disabled():
        lines = [line for line in result.console.splitlines() if "balance" in line]
        print(f"\nLinux {kernel.release}:", *lines, sep="\n  ")


def longest_waits_ns(
    kernel: Kernel, modules: dict[str, Path], scratch: Path
) -> dict[tuple[str, str], int]:
    """How long an old process waits, by what it does and whether requests expire."""
    files = {"/short-lived": program_or_skip("short-lived", scratch / "short-lived")}
    script = (SOURCE / "tests" / "short-lived.sh").read_text()
    result = run_script(kernel, script, modules, scratch / "out", files=files, programs=())
    found = {(kind, expiry): int(wait) for kind, expiry, wait in WAITS.findall(result.console)}
    assert len(found) == 4
    return found


@pytest.mark.parametrize("series", first_or_all(SERIES, ("6.12",)))
def test_an_old_process_does_not_starve_beside_short_lived_ones(
    series: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = kernel_or_skip(series)
    waits = longest_waits_ns(kernel, modules_or_skip(kernel), tmp_path)
    assert max(waits.values()) <= LONGEST_WAIT_NS
    with capsys.disabled():
        print(
            f"\nLinux {series}, longest waits in ms:",
            *(f"{kind} expiry={expiry} {wait / 1e6:.0f}" for (kind, expiry), wait in waits.items()),
        )


@only_long
def test_a_round_in_the_order_of_creation_starves_old_processes(tmp_path: Path) -> None:
    source = patched_source("visits-in-order-of-creation.patch", tmp_path / "source")
    kernel = kernel_or_skip("6.12")
    modules = build_or_skip(kernel, tmp_path / "build", source)
    waits = longest_waits_ns(kernel, modules, tmp_path)
    assert min(waits.values()) > LONGEST_WAIT_NS
    # Expiry bounds the wait, but far above what a round takes.
    assert waits["read", "off"] > waits["read", "on"]


@pytest.mark.parametrize(
    ("patch", "complaint"),
    [
        # A lost request may also keep the machine waiting for it: then it misses its deadline.
        (
            "drops-a-request.patch",
            r"a request was lost, or starved \(0 expired\)|missed its deadline",
        ),
        ("never-visits-a-queue.patch", r"or starved \([1-9]\d* expired\)|starved on a fast disk"),
    ],
    ids=["drops-a-request", "never-visits-a-queue"],
)
def test_a_broken_module_is_caught(patch: str, complaint: str, tmp_path: Path) -> None:
    kernel = kernel_or_skip("6.12")
    source = patched_source(patch, tmp_path / "source")
    modules = build_or_skip(kernel, tmp_path / "build", source)
    script = (SOURCE / "tests" / "mix.sh").read_text()
    with pytest.raises(VmRunError) as caught:
        run_script(kernel, script, modules, tmp_path / "out", deadline_s=120.0)
    assert re.search(complaint, f"{caught.value.console}\n{caught.value}")
