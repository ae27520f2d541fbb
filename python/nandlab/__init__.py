"""nandlab: a laboratory for NAND flash storage stacks.

`import nandlab as nl` gives the functions of `nandlab.api`: `nl.run`, `nl.replay`,
`nl.compare`, `nl.script`, `nl.crash`, `nl.parts` and more. Importing the package is cheap: the
functions load what is heavy when they need it.
"""

from typing import TYPE_CHECKING, Any

from nandlab.errors import NandlabError, UncertainError

if TYPE_CHECKING:
    from nandlab.api import *  # noqa: F403

# ruff: noqa: F405 (the names of the API are in its own list)
__all__ = [
    "Comparison", "Crash", "Interrupted", "NandlabError", "Replay", "Run", "Script", "Study",
    "UncertainError", "__version__", "boards", "compare", "crash", "devices", "file_systems",
    "formats", "ftls", "guarantees", "oob_layouts", "open_run", "parts", "policies", "replay",
    "run", "schedulers", "script", "studies", "tests", "workloads",
]  # fmt: skip

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load the functions of `nandlab.api` with their first use."""
    if name not in __all__:
        raise AttributeError(f"module 'nandlab' has no attribute {name!r}")
    from nandlab import api

    value = getattr(api, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Every public name, for completion."""
    return sorted(__all__)
