"""nandlab: a laboratory for NAND flash storage stacks.

Importing this package is cheap: what is heavy is loaded by the functions that need it.
"""

from nandlab.errors import NandlabError

__all__ = ["NandlabError", "__version__"]

__version__ = "0.1.0"
