"""Finds, and where needed builds, the workload program that runs inside the machine."""

import os
from pathlib import Path

from nandlab.vm import children
from nandlab.vm.kernels import cache_directory
from nandlab.vm.programs import VmUnavailable, find_program

GUEST_PROGRAM_VARIABLE = "NANDLAB_GUEST"
"""Environment variable that names a ready program, instead of building one."""

_TARGET = "x86_64-unknown-linux-gnu"


def find_guest_program() -> Path:
    """Return the statically linked `nandlab-guest`.

    It is the file the environment variable `NANDLAB_GUEST` names, or else is built by cargo from
    the source tree this package lies in.

    Raises `VmUnavailable` when there is neither, or when the build fails.
    """
    named = os.environ.get(GUEST_PROGRAM_VARIABLE)
    if named:
        if not Path(named).is_file():
            raise VmUnavailable(f"{GUEST_PROGRAM_VARIABLE} names {named}, which is not a file")
        return Path(named)
    source = Path(__file__).resolve().parents[3]
    cargo = find_program("cargo")
    if cargo is None or not (source / "crates" / "front" / "guest" / "Cargo.toml").is_file():
        raise VmUnavailable(
            "the guest program is not built: work in a source tree with cargo installed, "
            f"or set {GUEST_PROGRAM_VARIABLE} to a statically linked nandlab-guest"
        )
    return _build(cargo, ["--package", "guest"], "guest-target", source) / "nandlab-guest"


def find_ublk_program() -> Path:
    """Return the statically linked `nandlab-ublk`, built by cargo from extras/ublk.

    Raises `VmUnavailable` outside a source tree, without cargo, or when the build fails.
    """
    source = Path(__file__).resolve().parents[3]
    manifest = source / "extras" / "ublk" / "Cargo.toml"
    cargo = find_program("cargo")
    if cargo is None or not manifest.is_file():
        raise VmUnavailable("nandlab-ublk is not built: work in a source tree with cargo installed")
    options = ["--manifest-path", str(manifest)]
    return _build(cargo, options, "ublk-target", source) / "nandlab-ublk"


def _build(cargo: Path, options: list[str], target_name: str, source: Path) -> Path:
    """Build a program that needs no library of the machine; return its folder."""
    # A directory of its own: other flags in the shared one would rebuild everything there.
    target = Path(os.environ.get("CARGO_TARGET_DIR") or cache_directory().parent) / target_name
    environment = os.environ | {
        "CARGO_TARGET_DIR": str(target),
        "RUSTFLAGS": "-C target-feature=+crt-static",
    }
    command = [str(cargo), "build", "--quiet", "--release", *options, "--target", _TARGET]
    done = children.run(command, directory=source, environment=environment, is_apart=True)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["cargo gave no reason"]
        reason = next((line for line in lines if line.startswith("error")), lines[-1])
        raise VmUnavailable(f"a program for the machine does not build: {reason}")
    return target / _TARGET / "release"
