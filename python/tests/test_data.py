"""Studies and the rest of the data are found wherever the package lies."""

import shutil
from pathlib import Path
from typing import get_args

import pytest

from nandlab import data
from nandlab.errors import NandlabError
from nandlab.study_files import shipped_studies

ROOT = Path(__file__).resolve().parents[2]
KINDS: tuple[data.Kind, ...] = get_args(data.Kind)


@pytest.mark.parametrize("kind", KINDS)
def test_the_source_tree_has_one_copy(kind: data.Kind) -> None:
    assert data.folder(kind) == ROOT / kind
    assert (ROOT / "python/nandlab/data" / kind).is_symlink()


def test_a_variable_names_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "studies", tmp_path / "studies")
    monkeypatch.setenv(data.DATA_VARIABLE, str(tmp_path))
    assert data.folder("studies") == tmp_path / "studies"
    assert shipped_studies()
    assert all(path.is_relative_to(tmp_path) for path in shipped_studies().values())
    with pytest.raises(NandlabError, match=r"NANDLAB_DATA=.*no folder traces"):
        data.folder("traces")


def test_a_checkout_without_links_has_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "tree/python/nandlab/data"
    package.mkdir(parents=True)
    (tmp_path / "tree/parts").mkdir()
    monkeypatch.delenv(data.DATA_VARIABLE, raising=False)
    monkeypatch.setattr(data, "__file__", str(package / "__init__.py"))
    assert data.folder("parts") == tmp_path / "tree/parts"
    with pytest.raises(NandlabError, match="install nandlab again"):
        data.folder("traces")
