"""What a cell reads is in its key and goes with it: files of files, and modules of policies."""

import json
from pathlib import Path

import pytest

from nandlab import engine
from nandlab.cells.bundles import bundle_of
from nandlab.cells.choice import CellStudy
from nandlab.cells.work import Unpacked
from nandlab.engine_identity import engine_identity
from nandlab.errors import NandlabError
from nandlab.policy.loading import register

ROOT = Path(__file__).parents[2]

DEVICE = """name = "cells"
title = "Cells"
question = "What do they read?"
seed = 1
repeats = 1
[workload]
kind = "jobs"
[host]
board = "odroid-xu"
free_bytes = 268_435_456
[[job]]
name = "readers"
processes = 1
rw = "randread"
bs = "4k"
requests = 20
mode = "direct"
region = "free"
[axes]
device = ["./card.toml"]
mechanism = ["all"]
scheduler = ["noop"]
"""

LAYER = """name = "cells"
title = "Cells"
question = "What do they read?"
part = "published-small-block"
blocks = 80
seed = 1
repeats = 1
[workload]
kind = "uniform"
warm_up_writes = 1
measured_writes = 1
[axes]
ftl = ["page"]
cleaning = ["./mine.py:Mine"]
"""

TRACE = """name = "cells"
title = "Cells"
question = "What do they read?"
part = "./mine.toml"
seed = 1
repeats = 1
[workload]
kind = "trace"
file = "./{name}.parquet"
preconditioning = "none"
[axes]
ftl = ["page"]
name = ["fat"]
"""

POLICY = """from nandlab.policy import CleaningPolicy, CleaningView
from weights import PAGES


class Mine(CleaningPolicy):
    looks_at = ("valid_pages",)

    def choose(self, view: CleaningView) -> int:
        import tools.order

        return tools.order.best(view.blocks, view.valid_pages.astype(int) * PAGES)
"""


def device(folder: Path) -> Path:
    """A study of a device file that names a part file."""
    part = (ROOT / "parts" / "generic-mlc-2x.toml").read_text(encoding="utf-8")
    (folder / "flash.toml").write_text(part.replace("generic-mlc-2x", "mine"), encoding="utf-8")
    card = (ROOT / "devices" / "emmc-4.5-64gb.toml").read_text(encoding="utf-8")
    named = [one for one in card.splitlines() if one.startswith("part = ")]
    assert len(named) == 1
    card = card.replace(named[0], 'part = "./flash.toml"').replace("emmc-4.5-64gb", "card")
    # A small card is filled in a moment.
    for old, new in (("blocks = 8192", "blocks = 256"), ("62537072640", "1954283520")):
        assert old in card
        card = card.replace(old, new)
    (folder / "card.toml").write_text(card, encoding="utf-8")
    return _study(folder, DEVICE)


def layer(folder: Path) -> Path:
    """A study of a policy that imports a module, and later one of a package."""
    (folder / "tools").mkdir()
    for name, text in {
        "mine.py": POLICY,
        "weights.py": "PAGES = 1\n",
        "tools/__init__.py": "",
        "tools/order.py": "from tools.least import least as best\n",
        "tools/least.py": "def least(blocks, costs):\n    return int(blocks[costs.argmin()])\n",
        "other.py": "raise SystemExit\n",
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    return _study(folder, LAYER)


def trace(folder: Path) -> Path:
    """A study whose names of files begin with the folder that they are in."""
    part = (ROOT / "parts" / "published-small-block.toml").read_text(encoding="utf-8")
    own = part.replace("published-small-block", "mine")
    (folder / "mine.toml").write_text(own, encoding="utf-8")
    source = ROOT / "traces" / "small" / "fat-mp3-1.parquet"
    (folder / "fat.parquet").write_bytes(source.read_bytes())
    return _study(folder, TRACE)


def _study(folder: Path, text: str) -> Path:
    study = folder / "study.toml"
    study.write_text(text, encoding="utf-8")
    return study


def key(study: Path) -> str:
    """The key of the only cell."""
    identity = engine_identity()
    worker = engine.cell_worker(study, [], None, quick=False, moved={}, identity=identity)
    (cell,) = json.loads(worker.cells())
    return str(cell["key"])


@pytest.mark.parametrize(
    ("write", "read", "unread"),
    [
        (device, ["card.toml", "flash.toml"], None),
        (layer, ["mine.py", "weights.py", "tools/order.py", "tools/least.py"], "other.py"),
        (trace, ["mine.toml", "fat.parquet"], None),
    ],
    ids=["device", "layer", "trace"],
)
def test_a_key_covers_what_files_read(
    tmp_path: Path, write: object, read: list[str], unread: str | None
) -> None:
    study = write(tmp_path)  # type: ignore[operator]
    first = key(study)
    assert key(study) == first
    for name in read:
        file = tmp_path / name
        before = file.read_bytes()
        if file.suffix == ".parquet":
            file.write_bytes((ROOT / "traces" / "small" / "ntfs-jpg-1.parquet").read_bytes())
        else:
            file.write_bytes(before + b"# changed\n")
        assert key(study) != first, name
        file.write_bytes(before)
    assert key(study) == first
    if unread is not None:
        (tmp_path / unread).write_text("changed = 1\n", encoding="utf-8")
        assert key(study) == first


@pytest.mark.parametrize("write", [device, layer, trace], ids=["device", "layer", "trace"])
def test_what_files_read_goes_with_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: object
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    study = write(here)  # type: ignore[operator]
    identity = engine_identity()
    own = engine.cell_worker(study, [], None, quick=False, moved={}, identity=identity)
    (expected,), error = own.run_cells([0])
    assert error is None
    given = CellStudy(str(study), (), None, False)
    bundle = bundle_of(given, json.loads(own.files()))
    # Another machine has none of the files.
    here.rename(tmp_path / "gone")
    monkeypatch.chdir(tmp_path)
    there = Unpacked().of(bundle)
    assert there.keys == [json.loads(own.cells())[0]["key"]]
    assert there.worker.run_cells([0]) == ([expected], None)
    there.folder.cleanup()


def test_a_changed_module_is_read_anew(tmp_path: Path) -> None:
    study = layer(tmp_path)
    errors = []
    for pages in ("1", "None", "1"):
        (tmp_path / "weights.py").write_text(f"PAGES = {pages}\n", encoding="utf-8")
        identity = engine_identity()
        worker = engine.cell_worker(study, [], None, quick=False, moved={}, identity=identity)
        errors.append(worker.run_cells([0])[1])
    assert errors[0] is None
    assert "mine.py:Mine" in str(errors[1])
    assert errors[2] is None


def test_a_module_that_fails_is_told_and_read_anew_when_it_is_mended(tmp_path: Path) -> None:
    """Also one that a function imports: it would be missing only in the middle of a run."""
    layer(tmp_path)
    least = tmp_path / "tools" / "least.py"
    right = least.read_text(encoding="utf-8")
    named = [f"{tmp_path / 'mine.py'}:Mine"]
    for module in (least, tmp_path / "weights.py"):
        before = module.read_text(encoding="utf-8")
        module.write_text(f"PAGES = 1 // 0\n{before}", encoding="utf-8")
        with pytest.raises(NandlabError, match="cannot be loaded: ZeroDivisionError"):
            register(named)
        module.write_text(before, encoding="utf-8")
        register(named)
    # What is not installed may be missing: the policy may have another way.
    least.write_text(f"import not_installed_anywhere\n{right}", encoding="utf-8")
    assert len(register(named)) == 1
