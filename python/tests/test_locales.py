"""Files are UTF-8 and output is readable in every locale."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*(ROOT / "python/nandlab").rglob("*.py"), *(ROOT / "scripts").rglob("*.py")])
NANDLAB = (sys.executable, "-m", "nandlab")
LATIN = "de_DE.ISO-8859-1"


def _faults(source: Path) -> list[str]:
    """Calls that leave the encoding of a text to the locale."""
    faults = []
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        owner = called.value if isinstance(called, ast.Attribute) else None
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        place = f"{source.relative_to(ROOT)}:{node.lineno}: {name}"
        if name in ("read_text", "write_text") and "encoding" not in keywords:
            faults.append(place)
        is_file = name == "open" and getattr(owner, "id", "") not in ("os", "tarfile")
        if is_file and "encoding" not in keywords:
            values = [*node.args, *keywords.values()]
            modes = [one.value for one in values if isinstance(one, ast.Constant)]
            if not any(isinstance(mode, str) and mode.endswith("b") for mode in modes):
                faults.append(place)
        if name in ("run", "Popen", "check_output") and "text" in keywords:
            faults.append(f"{place}(text=True)")
    return faults


def test_every_text_file_has_an_encoding() -> None:
    assert SOURCES
    assert [fault for source in SOURCES for fault in _faults(source)] == []


def _environments(tmp_path: Path) -> dict[str, dict[str, str]]:
    """Variables of each locale; Latin-1 is made, where the system has its tables."""
    plain = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    found = {
        "UTF-8": {"LC_ALL": "C.UTF-8"},
        "C": {"LC_ALL": "C"},
        "C without help": {"LC_ALL": "C", **plain},
        "Latin-1 output": {"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "iso-8859-1"},
    }
    if shutil.which("localedef"):
        locale = tmp_path / LATIN
        done = subprocess.run(
            ["localedef", "-i", "de_DE", "-f", "ISO-8859-1", str(locale)],
            capture_output=True,
            check=False,
        )
        if done.returncode == 0 or locale.is_dir():
            found["ISO-8859-1"] = {"LC_ALL": LATIN, "LOCPATH": str(tmp_path), **plain}
    return found


@pytest.mark.usefixtures("engine_is_built")
def test_files_are_the_same_in_every_locale(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    text = (ROOT / "studies/ftl-windows/study.toml").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith(("title", "reference"))]
    title = 'title = "Prüfung — 3 µs ≥ 2 µs, 測試"'
    traces = (ROOT / "traces").as_posix()
    body = "\n".join([title, *lines]).replace('"../../traces', f'"{traces}')
    study.write_text(body, encoding="utf-8")
    folders = {}
    environments = _environments(tmp_path)
    if "ISO-8859-1" not in environments:
        print("left out: a locale of ISO-8859-1 cannot be made here")
    for name, variables in environments.items():
        out = tmp_path / f"out-{name.replace(' ', '-')}"
        words = [*NANDLAB, "run", str(study), "--quick", "--out", str(out)]
        words += ["--set", "axes.ftl=bast"]
        done = subprocess.run(
            [*words], capture_output=True, env=os.environ | variables, check=False
        )
        assert done.returncode == 0, (name, done.stderr)
        assert b"Traceback" not in done.stderr
        for command in (["list", "studies"], ["explain", "bast", "--ops", "W1"], ["--help"]):
            shown = subprocess.run(
                [*NANDLAB, *command], capture_output=True, env=os.environ | variables, check=False
            )
            assert (shown.returncode, shown.stderr) == (0, b""), (name, command)
        assert (
            subprocess.run(
                [*NANDLAB, "report", str(out)],
                capture_output=True,
                env=os.environ | variables,
                check=False,
            ).returncode
            == 0
        )
        files = sorted(path for path in out.rglob("*") if path.is_file())
        folders[name] = {
            path.name: path.read_bytes().replace(out.name.encode(), b"OUT") for path in files
        }
        assert "測試" in (out / "manifest.json").read_text(encoding="utf-8")
    first = folders["UTF-8"]
    for name, files in folders.items():
        different = [path for path in first if first[path] != files.get(path)]
        assert different == [], name
