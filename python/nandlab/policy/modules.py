"""Modules beside a policy's file: what it imports is as much its text as the file itself."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from modulefinder import ModuleFinder
from pathlib import Path

from nandlab.errors import NandlabError

_loaded: set[str] = set()
"""Names of modules that policies imported: they are read anew with the policy."""


def modules_beside(path: Path) -> dict[str, Path]:
    """Name and file of each module in the folder of a file that it imports, also through others.

    Statements within functions count. Modules from elsewhere belong to what is installed.

    Raises `NandlabError` for a module that is no Python.
    """
    finder = ModuleFinder(path=[str(path.parent)])
    try:
        finder.run_script(str(path))
    except SyntaxError as error:
        raise NandlabError(f"line {error.lineno} of {error.filename}: {error.msg}") from None
    files = {name: getattr(module, "__file__", None) for name, module in finder.modules.items()}
    found = {name: Path(file) for name, file in files.items() if file and name != "__main__"}
    return dict(sorted(found.items()))


@contextmanager
def importable(folder: Path, modules: Mapping[str, Path]) -> Iterator[None]:
    """Lets what runs in the block import modules of a folder, as they are now."""
    for name in _loaded & modules.keys():
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    place = str(folder)
    # Compiled code is found by time and size: within a second it would stand for another text.
    writes_none, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, place)
    before = set(sys.modules)
    try:
        yield
        for name in modules:
            # Imports within functions come later, when the folder is not looked through any more.
            # A policy may do without a module that imports what is not installed.
            with suppress(ImportError):
                importlib.import_module(name)
    finally:
        # Also if a module failed: the next call reads what was mended.
        _loaded.update(modules.keys() - before)
        sys.path.remove(place)
        sys.dont_write_bytecode = writes_none
