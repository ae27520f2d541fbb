"""Which engine carries cells out: version and content of the native module."""

import hashlib
from functools import cache
from pathlib import Path

from nandlab import __version__


@cache
def engine_identity() -> str:
    """Version of nandlab and SHA-256 of its native module.

    The version alone does not tell a source tree that was built again from the build before.
    """
    from nandlab import _native

    with Path(str(_native.__file__)).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return f"nandlab {__version__} ({digest[:16]})"
