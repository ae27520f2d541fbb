"""The data that come with nandlab: studies, parts, boards, devices, workloads and traces.

In the source tree `make build` links the folders at its top beside this file; a wheel holds the
files themselves. The layout is the same, so a study finds its traces by the same relative path.
"""

import os
from pathlib import Path
from typing import Literal

from nandlab.errors import NandlabError

Kind = Literal["boards", "devices", "parts", "studies", "traces", "workloads"]

DATA_VARIABLE = "NANDLAB_DATA"
"""Environment variable that names a folder with `studies`, `traces` and so on to use instead."""


def folder(kind: Kind) -> Path:
    """Folder of one kind of data.

    `NANDLAB_DATA` comes first, then the package, then the source tree, for a checkout whose links
    were not kept.

    Raises `NandlabError` when none of them has the folder.
    """
    given = os.environ.get(DATA_VARIABLE)
    package = Path(__file__).resolve().parent
    candidates = [Path(given)] if given else [package, package.parents[2]]
    for candidate in candidates:
        found = (candidate / kind).resolve()
        if found.is_dir():
            return found
    if given:
        raise NandlabError(
            f"{DATA_VARIABLE}={given}: it has no folder {kind}; name a folder that has one"
        )
    raise NandlabError(f"this installation has no {kind}: install nandlab again")
