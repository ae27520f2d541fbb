"""Programs of the folder `scripts`, as modules."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

SCRIPTS = Path(__file__).parents[2] / "scripts"


@contextmanager
def script_modules(*names: str) -> Iterator[tuple[ModuleType, ...]]:
    """Import them; until the end each of them can import others of the folder."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        yield tuple(importlib.import_module(name) for name in names)
    finally:
        sys.path.remove(str(SCRIPTS))
