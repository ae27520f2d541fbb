"""Turns a capture into the form that studies read: one Parquet file that says how it was made."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nandlab import engine


def command_of(metadata: Mapping[str, Any]) -> str:
    """The `nandlab capture` command line that makes such a trace."""
    writer = metadata.get("writer", {}).get("name", "synced")
    return (
        f"nandlab capture --file-system {metadata['file_system']} --file-set {metadata['file_set']}"
        f" --processes {metadata['processes']} --operations {metadata['operations']}"
        f" --seed {metadata['seed']}{'' if writer == 'synced' else f' --writer {writer}'}"
    )


def write_canonical(trace: Path, metadata: Mapping[str, Any], output: Path) -> dict[str, Any]:
    """Convert the binary trace of a captured workload to Parquet; returns what is in it.

    The file's own metadata hold the command, the versions of kernel and tools, where the metadata
    of the volume lie (`regions`, as JSON), and the bytes that the workload copied, from which the
    share of file system metadata follows. So `copied_bytes` leaves out what a lazy writer never
    wrote, because the file was deleted first; that is `unwritten_bytes`.
    """
    workload = dict(metadata["workload"])
    workload["copied_bytes"] -= workload.get("unwritten_bytes", 0)
    facts = {
        "command": command_of(metadata),
        "file_system": str(metadata["file_system"]),
        "file_set": str(metadata["file_set"]),
        "processes": str(metadata["processes"]),
        "seed": str(metadata["seed"]),
    }
    facts |= {f"version_{name}": str(version) for name, version in metadata["versions"].items()}
    facts |= {name: str(value) for name, value in workload.items()}
    writer = dict(metadata.get("writer", {}))
    if writer:
        facts["writer"] = writer.pop("name")
    facts |= {f"writer_{name}": str(value) for name, value in writer.items()}
    if "regions" in metadata:
        facts["regions"] = json.dumps(metadata["regions"])
    return engine.convert(trace, output, {"metadata": facts})
