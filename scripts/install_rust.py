"""Installs the Rust toolchain that rust-toolchain.toml pins into .rust, for machines without Rust.

`make build` calls it where no cargo is found. Nothing outside of the checkout is changed. If the
toolchain cannot be had, one line says what to install, and the exit status is 2.
"""

import hashlib
import os
import platform
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SERVER = "https://static.rust-lang.org/rustup"
SERVER_VARIABLE = "RUSTUP_UPDATE_ROOT"
"""Environment variable of rustup for a mirror of its server."""

PATIENCE_S = 60


class InstallError(Exception):
    """The toolchain could not be installed."""


def pinned_channel(root: Path) -> str:
    """Version that the checkout asks for."""
    pinned = tomllib.loads((root / "rust-toolchain.toml").read_text(encoding="utf-8"))
    return str(pinned["toolchain"]["channel"])


def install(root: Path, channel: str) -> None:
    """Downloads rustup's installer, compares its checksum, and runs it with folders in `.rust`."""
    server = os.environ.get(SERVER_VARIABLE, SERVER).rstrip("/")
    place = f"{server}/dist/{platform.machine()}-unknown-linux-gnu/rustup-init"
    try:
        program = _download(place)
        expected = _download(f"{place}.sha256").split()[0].decode()
    except (OSError, IndexError, ValueError) as error:
        raise InstallError(f"{place} cannot be read: {error}") from None
    if hashlib.sha256(program).hexdigest() != expected:
        raise InstallError(f"{place} has another checksum than {place}.sha256")
    homes = {"RUSTUP_HOME": str(root / ".rust/rustup"), "CARGO_HOME": str(root / ".rust/cargo")}
    words = ["-y", "--quiet", "--no-modify-path", "--profile", "minimal"]
    words += ["--component", "clippy", "--component", "rustfmt", "--default-toolchain", channel]
    with tempfile.TemporaryDirectory() as folder:
        installer = Path(folder) / "rustup-init"
        installer.write_bytes(program)
        installer.chmod(0o755)
        # Its closing words advise a change of PATH, which make does not need.
        command = [str(installer), *words]
        environment = os.environ | homes
        done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise InstallError(f"rustup-init ended with status {done.returncode}")


def _download(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
        content: bytes = answer.read()
    return content


def main(root: Path = ROOT) -> int:
    """Installs, or says in one line what to install."""
    channel = pinned_channel(root)
    print(f"Rust {channel} is installed into {root / '.rust'}", file=sys.stderr)
    try:
        install(root, channel)
    except InstallError as error:
        print(
            f"Rust is missing ({error}): install Rust {channel} from https://rustup.rs "
            "and a C compiler, then run make build again",
            file=sys.stderr,
        )
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT))
