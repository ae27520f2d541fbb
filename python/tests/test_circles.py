"""No crate has a circle of more than three files, and no crate uses one of a layer above it."""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import circles  # noqa: E402

LAYERS = ("base", "media", "host", "fs", "lab", "front")
"""The folders of `crates`, from below to above."""


def _write(source: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return source


def test_a_circle_is_found_through_trees_parents_and_paths(tmp_path: Path) -> None:
    source = _write(
        tmp_path,
        {
            "lib.rs": "mod a; mod b; mod c; mod d;",
            "a.rs": "use crate::{b::{One, Two}, d::Leaf as Other};",
            "b/mod.rs": "fn f() { crate::c::g(); }",
            "b/inner.rs": "use super::One;",
            "c.rs": "use super::a::Three;",
            "d.rs": "// use crate::a;\n#[cfg(test)]\nmod tests {\n    use crate::a::X;\n}\n",
        },
    )
    graph = circles.graph_of(source)
    assert graph["a"] == {"b", "d"}
    assert graph["b::inner"] == {"b"}
    assert graph["d"] == set()
    assert circles.circles(graph) == [["a", "b", "c"]]


def test_four_files_in_a_circle_are_refused(tmp_path: Path) -> None:
    files = {"lib.rs": ""} | {
        f"{name}.rs": f"use crate::{after}::X;" for name, after in zip("abcd", "bcda", strict=True)
    }
    _write(tmp_path / "crates/base/one/src", files)
    assert circles.main(tmp_path) == 1
    (tmp_path / "crates/base/one/src/d.rs").write_text("")
    assert circles.main(tmp_path) == 0


def test_no_circle_of_this_tree_is_larger_than_three() -> None:
    assert circles.main() == 0


def test_no_crate_depends_on_a_layer_above() -> None:
    layer = {path.parent.name: path.parents[1].name for path in ROOT.glob("crates/*/*/Cargo.toml")}
    assert set(layer.values()) == set(LAYERS)
    upward = []
    for path in ROOT.glob("crates/*/*/Cargo.toml"):
        crate = path.parent.name
        for used in tomllib.loads(path.read_text("utf-8")).get("dependencies", {}):
            if used in layer and LAYERS.index(layer[used]) > LAYERS.index(layer[crate]):
                upward.append(f"{crate} uses {used}")
    assert not upward
