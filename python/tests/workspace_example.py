"""Programs among the examples of the Rust workspace, which write what a kernel then mounts."""

import json
import subprocess
from functools import cache
from pathlib import Path

import pytest

from nandlab.vm.programs import find_program

ROOT = Path(__file__).resolve().parents[2]


@cache
def example_or_skip(name: str) -> Path:
    """Build an example, or leave the test out.

    The whole workspace decides which features its dependencies have, as in `cargo test
    --workspace`: what that has built is used as it is.
    """
    cargo = find_program("cargo")
    if cargo is None:
        pytest.skip(f"cargo is not installed: it builds the program {name}")
    command = [str(cargo), "build", "--quiet", "--workspace", "--example", name]
    command += ["--message-format", "json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    messages = (json.loads(line) for line in done.stdout.splitlines())
    made = (one for one in messages if one.get("executable") and one["target"]["name"] == name)
    return Path(next(made)["executable"])
