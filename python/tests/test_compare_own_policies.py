"""Policies in Python as candidates of a comparison: named, copied, hashed."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from own_policies import EXAMPLES, copy_examples

import nandlab as nl
from nandlab.errors import NandlabError

pytestmark = pytest.mark.usefixtures("engine_is_built")

WORKLOADS = Path(__file__).parents[2] / "workloads" / "compare"
LAYER = str(EXAMPLES / "my_layer.py") + ":MyLayer"
NOOP = str(EXAMPLES / "my_noop.py") + ":MyNoop"
GREEDY = str(EXAMPLES / "my_greedy.py") + ":MyGreedy"
COPY = WORKLOADS / "copy-files.toml"


def archived(folder: Path) -> dict[str, str]:
    """The policies in the manifest of a run, by the name of the file; each is there as it was."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    found = {
        one["file"]: one["sha256"]
        for one in manifest["comparison"]["files"]
        if one["what"] == "policy"
    }
    for name, digest in found.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
        assert (folder / name).read_bytes() == (EXAMPLES / name).read_bytes()
    return found


def test_layers_and_cleaning_are_candidates(tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = nl.compare(
        ftl=["page", "bast", LAYER], cleaning=["greedy", GREEDY], workload=COPY, out=out
    )
    names = found.table.columns[1:]
    assert names == [
        "page mapping greedy",
        "page mapping my_greedy.py:MyGreedy",
        "BAST",
        "my_layer.py:MyLayer",
    ]
    wide = found.run.wide("waf")
    waf = {(row["ftl"], row["cleaning"]): row["waf"] for row in wide.to_dicts()}
    assert waf["page", "greedy"] == waf["page", "my_greedy.py:MyGreedy"]
    assert set(archived(out)) == {"my_greedy.py", "my_layer.py"}
    # The folder has all that it takes to do it again.
    assert nl.run(out / "comparison.toml").digest == found.run.digest


def test_schedulers_and_layers_of_cards_are_candidates(tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = nl.compare(
        fs="fat",
        ftl=["page", LAYER],
        scheduler=["noop", NOOP],
        blocks=512,
        workload=WORKLOADS / "update.toml",
        out=out,
    )
    assert found.table.columns[1:] == [
        "FAT noop on page mapping",
        "FAT my_noop.py:MyNoop on page mapping",
        "FAT noop on my_layer.py:MyLayer",
        "FAT my_noop.py:MyNoop on my_layer.py:MyLayer",
    ]
    assert set(archived(out)) == {"my_layer.py", "my_noop.py"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ftl": NOOP}, "is of the kind scheduler, and this option takes layer"),
        ({"ftl": f"page,{EXAMPLES / 'my_layer.py'}:Layr"}, "has no policy `Layr`"),
        (
            {"ftl": "page", "cleaning": LAYER},
            "is of the kind layer, and this option takes cleaning",
        ),
        ({"ftl": "bast", "cleaning": "greedy"}, "name layers with a choice of it by --ftl"),
        ({"ftl": f"{LAYER},{LAYER}"}, "is there twice"),
        ({"ftl": "my.py:A"}, "there is no file my.py"),
    ],
)
def test_what_is_no_candidate_is_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(NandlabError, match=said):
        nl.compare(workload=COPY, **options)


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    copy_examples(tmp_path)
    with pytest.raises(NandlabError, match="have the same name; rename one of them"):
        nl.compare(ftl=f"{LAYER},{tmp_path / 'my_layer.py'}:MyLayer", workload=COPY)


def test_a_module_that_a_policy_imports_goes_with_it(tmp_path: Path) -> None:
    source = tmp_path / "mine"
    (source / "helpers").mkdir(parents=True)
    (source / "helpers" / "__init__.py").write_text("", encoding="utf-8")
    (source / "helpers" / "choice.py").write_text(
        (EXAMPLES / "my_greedy.py").read_text(encoding="utf-8"), encoding="utf-8"
    )
    (source / "mine.py").write_text(
        "from helpers.choice import MyGreedy\n\n\nclass Mine(MyGreedy):\n    pass\n",
        encoding="utf-8",
    )
    out = tmp_path / "out"
    found = nl.compare(ftl="page", cleaning=f"{source / 'mine.py'}:Mine", workload=COPY, out=out)
    assert (out / "helpers" / "choice.py").is_file()
    shutil.rmtree(source)
    assert nl.run(out / "comparison.toml").digest == found.run.digest
