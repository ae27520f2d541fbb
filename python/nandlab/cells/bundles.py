"""Packs a study for workers: its text, and the content of all files that its cells read."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from nandlab.cells.choice import CellStudy
from nandlab.cells.work import Bundle
from nandlab.engine_identity import engine_identity
from nandlab.errors import NandlabError


def bundle_of(study: CellStudy, files: list[tuple[str, str]]) -> Bundle:
    """The study and the content of its files.

    Raises `NandlabError` for a file that cannot be read.
    """
    try:
        text = Path(study.path).read_bytes()
        found = tuple(
            (name, inner, Path(path).read_bytes())
            for (name, path), inner in zip(files, _places_of(files), strict=True)
        )
    except OSError as error:
        raise NandlabError(f"{error.filename}: {error.strerror}") from None
    words = (tuple(study.sets), study.seed, study.quick)
    identity = engine_identity()
    contents = ((name, suffix, hashlib.sha256(one).hexdigest()) for name, suffix, one in found)
    # Contents are hashed as they are: their `repr` is up to four times as long as they.
    told = repr((hashlib.sha256(text).hexdigest(), words, tuple(contents), identity))
    digest = hashlib.sha256(told.encode()).hexdigest()
    return Bundle(text, *words, found, identity, digest=digest)


def _places_of(files: list[tuple[str, str]]) -> Iterator[str]:
    """A place within a folder for each file: a folder for each name.

    Files of the same name come with the first of them, and keep their places beside it.
    """
    ups: Counter[str] = Counter()
    first: dict[str, tuple[int, Path]] = {}
    inner = {}
    for name, path in files:
        _, own = first.setdefault(name, (len(first), Path(path)))
        inner[name, path] = os.path.relpath(path, own.parent)
        ups[name] = max(ups[name], Path(inner[name, path]).parts.count(os.pardir))
    for name, path in files:
        # As deep as the files beside it lie higher: none leaves the folder of the name.
        folder = f"files/{first[name][0]}{'/inner' * ups[name]}"
        yield Path(os.path.normpath(f"{folder}/{inner[name, path]}")).as_posix()
