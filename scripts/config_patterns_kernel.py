"""Has a kernel mount the disks that failed cuts of FAT leave; keeps docs/config-patterns.json.

It boots a virtual machine for each pattern and stack, so that it is no part of `make docs`.
"""

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import config_patterns as patterns
from generated_page import DOCS

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from nandlab.vm import find_kernel  # noqa: E402
from tearing_lab.crash_media import (  # noqa: E402  (a folder of the tests)
    Stack,
    broken_cuts,
    difference,
    medium,
    mount_all,
)
from tearing_lab.disks import (  # noqa: E402
    DiskCut,
    disk_after,
    mounted_files,
    record_writes,
)

RECORD = DOCS / "config-patterns.json"
SERIES = "6.12"


def confirmed(pattern: str, stack: patterns.Stack) -> dict[str, Any]:
    """Every failed cut of a pattern on a stack, in a kernel."""
    script = patterns.path(pattern)
    under = Stack(stack.file_system, stack.block_device, **patterns.CHIP)
    with tempfile.TemporaryDirectory() as folder:
        cuts = broken_cuts(script, under, stack.every)
        media = [medium(script, under, at, torn, Path(folder)) for at, torn in cuts]
        mounted = mount_all(SERIES, under, media, Path(folder) / "out") if media else []
    told = (difference(ours, theirs) for ours, theirs in zip(media, mounted, strict=True))
    differences = [
        {"cut_point": ours.cut_point, "torn": ours.torn, "difference": text}
        for ours, text in zip(media, told, strict=True)
        if text is not None
    ]
    return {
        "pattern": pattern,
        "file_system": stack.file_system,
        "on": stack.on,
        "failed": len(media),
        "disks": len({one.digest for one in media}),
        "differences": differences,
    }


def own_run(pattern: str) -> dict[str, Any]:
    """The pattern in the kernel itself, and each prefix of the writes that its disk got.

    No write is reordered or torn: this is the least that a cut can do.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = folder / f"{pattern}.ops"
        lines = patterns.path(pattern).read_text(encoding="utf-8").splitlines(keepends=True)
        # Phases are the simulator's.
        script.write_text(
            "".join(line for line in lines if not line.startswith("phase")), encoding="utf-8"
        )
        (log,), failures = record_writes(SERIES, [script], folder / "recorded", "vfat")
        if failures != [[]]:
            raise SystemExit(f"{pattern}: calls failed: {failures}")
        images = {}
        for writes in range(log.first, len(log.writes) + 1):
            image = folder / f"{writes}.img"
            image.write_bytes(disk_after(log, DiskCut(writes)))
            images[str(writes)] = image
        mounted = mounted_files(SERIES, images, "vfat", folder / "mounted")
    found: Counter[str] = Counter()
    for disk in mounted.values():
        if "cfg" not in disk.files:
            found["missing"] += 1
        elif disk.files["cfg"] is None:
            found["unreadable"] += 1
        else:
            found[f"{len(disk.files['cfg'])} bytes"] += 1
    return {"pattern": pattern, "cuts": len(mounted), "found": dict(sorted(found.items()))}


def main() -> int:
    """Write the record."""
    stacks = [stack for stack in patterns.STACKS if stack.file_system == "fat"]
    rows = []
    for pattern in patterns.PATTERNS:
        for stack in stacks:
            rows.append(confirmed(pattern, stack))
            print({**rows[-1], "differences": len(rows[-1]["differences"])}, flush=True)
    own = [own_run(pattern) for pattern in patterns.PATTERNS]
    print(own, flush=True)
    record = {"kernel": find_kernel(SERIES).release, "rows": rows, "own": own}
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
