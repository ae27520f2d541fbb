"""The modules in kernels that look for faults: silent under load, not with planted faults."""

import os
import re
from pathlib import Path

import pytest
from debug_kernels import MODULE_ARGUMENTS, complaints, debug_kernel_or_skip
from kernel_lab import SOURCE, build_or_skip, patched_source, run_script
from long_tests import only_long

from nandlab.vm import Kernel, VmRunError

SOAK_REQUESTS = int(os.environ.get("NANDLAB_SOAK_REQUESTS", "60000"))
"""Of each scheduler and kernel: three rounds, one of them with requests that come back."""

KERNELS = (("6.12", "kasan"), ("6.12", "kcsan"), ("6.1", "kasan"))

SOAKED = re.compile(
    r"^soak (\S+) served (\d+) rounds (\d+) requeued (\d+) merged (\d+) no_memory (\d+)",
    re.MULTILINE,
)

MEMORY_MIB = 3072
"""KASAN keeps what was freed for a while, and needs an eighth of all memory for itself."""

PLANTED = [
    ("kasan", "kasan-sees-a-freed-queue", r"BUG: KASAN: \S*use-after-free in sfq_"),
    ("kasan", "lockdep-sees-a-lock-in-an-interrupt", "WARNING: inconsistent lock state"),
    ("kasan", "sleep-is-seen-under-a-lock", "BUG: sleeping function called from invalid context"),
    ("kcsan", "kcsan-sees-an-unmarked-read", r"BUG: KCSAN: data-race in .*sfq_has_work"),
]


def soak(requests: int, processors: int) -> str:
    """The script with what it is to do."""
    text = (SOURCE / "tests" / "soak.sh").read_text(encoding="utf-8")
    return f"requests={requests}\nprocessors={processors}\n{text}"


def silent_console(
    kernel: Kernel, script: str, modules: dict[str, Path], folder: Path, deadline_s: float
) -> str:
    """What the machine printed; where the script failed, why.

    KCSAN reports races of the whole kernel, among which the reason is not one of the last lines.
    """
    try:
        result = run_script(
            kernel,
            script,
            modules,
            folder / "out",
            processors=2,
            deadline_s=deadline_s,
            memory_mib=MEMORY_MIB,
            kernel_arguments="slub_debug=A,sfq_queue,sfq2_queue",
        )
    except VmRunError as error:
        (folder / "console.txt").write_text(error.console, encoding="utf-8")
        reasons = [
            line
            for line in error.console.splitlines()
            if line.startswith(("FAIL", "soak", "test:", "fio", "Kernel panic"))
        ]
        pytest.fail("\n".join([str(error), "", *reasons, str(folder / "console.txt")]))
    return result.console


@only_long
@pytest.mark.parametrize(("series", "kind"), KERNELS, ids=["-".join(row) for row in KERNELS])
def test_a_soak_is_silent(
    series: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = debug_kernel_or_skip(series, kind)
    modules = build_or_skip(kernel, tmp_path / "build", arguments=MODULE_ARGUMENTS)
    deadline_s = 1800.0 + SOAK_REQUESTS / 10
    script = soak(SOAK_REQUESTS, processors=2)
    console = silent_console(kernel, script, modules, tmp_path, deadline_s)
    found = {row[0]: [int(number) for number in row[1:]] for row in SOAKED.findall(console)}
    assert found.keys() == {"sfq", "sfq2"}
    for served, _, requeued, merged, no_memory in found.values():
        # What the load is for did occur.
        assert served >= SOAK_REQUESTS
        assert min(requeued, merged, no_memory) > 0
    with capsys.disabled():
        print(f"\nLinux {kernel.release}:", *(f"{name}: {row}" for name, row in found.items()))


@only_long
@pytest.mark.parametrize(("series", "kind"), KERNELS, ids=["-".join(row) for row in KERNELS])
def test_the_stress_is_silent(series: str, kind: str, tmp_path: Path) -> None:
    kernel = debug_kernel_or_skip(series, kind)
    modules = build_or_skip(kernel, tmp_path / "build", arguments=MODULE_ARGUMENTS)
    script = (SOURCE / "tests" / "stress.sh").read_text(encoding="utf-8")
    # A kernel that looks for faults is some ten times slower, and jobs of fio have deadlines.
    slow = script.replace(". /tests/common.sh", ". /tests/common.sh\npatience=10")
    console = silent_console(kernel, slow, modules, tmp_path, deadline_s=4 * 3600.0)
    assert "test: stress passed" in console


@only_long
@pytest.mark.parametrize(("kind", "patch", "report"), PLANTED, ids=[row[1] for row in PLANTED])
def test_a_planted_fault_is_seen(kind: str, patch: str, report: str, tmp_path: Path) -> None:
    kernel = debug_kernel_or_skip("6.12", kind)
    source = patched_source(f"{patch}.patch", tmp_path / "source")
    modules = build_or_skip(kernel, tmp_path / "build", source, MODULE_ARGUMENTS)
    script = soak(SOAK_REQUESTS, processors=2)
    with pytest.raises(VmRunError) as caught:
        run_script(
            kernel,
            script,
            modules,
            tmp_path / "out",
            processors=2,
            deadline_s=900.0,
            memory_mib=MEMORY_MIB,
        )
    assert any(re.search(report, line) for line in complaints(caught.value.console)), (
        caught.value.console[-3000:]
    )
