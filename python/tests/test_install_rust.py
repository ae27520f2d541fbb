"""`make build` without Rust: the toolchain goes into the checkout, or one line says what to do."""

import hashlib
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/install_rust.py"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "rust-toolchain.toml").write_text('[toolchain]\nchannel = "1.2.3"\n')
    return checkout


def _serve(folder: Path, installer: str, checksum: str | None = None) -> str:
    """Lays out files as rustup's server does; returns its address."""
    place = folder / f"dist/{platform.machine()}-unknown-linux-gnu"
    place.mkdir(parents=True)
    (place / "rustup-init").write_text(installer)
    found = checksum or hashlib.sha256(installer.encode()).hexdigest()
    (place / "rustup-init.sha256").write_text(f"{found} *rustup-init\n")
    return folder.as_uri()


def _install(checkout: Path, server: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), str(checkout)],
        env=os.environ | {"RUSTUP_UPDATE_ROOT": server},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def test_the_pinned_toolchain_goes_into_the_checkout(checkout: Path, tmp_path: Path) -> None:
    installer = (
        '#!/bin/sh\nmkdir -p "$CARGO_HOME/bin" "$RUSTUP_HOME"\necho "$@" > "$CARGO_HOME/words"\n'
    )
    done = _install(checkout, _serve(tmp_path / "server", installer))
    assert done.returncode == 0, done.stderr
    assert "--default-toolchain 1.2.3" in (checkout / ".rust/cargo/words").read_text()
    assert "--no-modify-path" in (checkout / ".rust/cargo/words").read_text()
    assert (checkout / ".rust/rustup").is_dir()


@pytest.mark.parametrize(
    ("installer", "checksum", "reason"),
    [
        ("#!/bin/sh\nexit 7\n", None, "ended with status 7"),
        ("#!/bin/sh\nexit 0\n", "0" * 64, "another checksum"),
    ],
)
def test_what_fails_is_said_in_one_line(
    checkout: Path, tmp_path: Path, installer: str, checksum: str | None, reason: str
) -> None:
    done = _install(checkout, _serve(tmp_path / "server", installer, checksum))
    assert done.returncode == 2
    assert reason in done.stderr.splitlines()[-1]
    assert "install Rust 1.2.3 from https://rustup.rs" in done.stderr.splitlines()[-1]


def test_without_a_network_one_line_says_what_to_install(checkout: Path, tmp_path: Path) -> None:
    done = _install(checkout, (tmp_path / "nothing").as_uri())
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "install Rust 1.2.3 from https://rustup.rs" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("has_cargo", [True, False])
def test_make_installs_rust_only_where_it_is_missing(tmp_path: Path, has_cargo: bool) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    if has_cargo:
        (programs / "cargo").write_text("#!/bin/sh\n")
        (programs / "cargo").chmod(0o755)
    home = {"HOME": str(tmp_path), "PATH": f"{programs}:/usr/bin:/bin"}
    if not has_cargo and any((Path(one) / "cargo").exists() for one in ("/usr/bin", "/bin")):
        pytest.skip("cargo is in /usr/bin: a machine without it cannot be played")
    done = subprocess.run(
        ["make", "--dry-run", "build"],
        cwd=ROOT,
        env=home,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert ("install_rust.py" in done.stdout) is not has_cargo
