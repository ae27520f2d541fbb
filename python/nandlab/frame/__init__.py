"""The results of a run: one typed frame of rows, and the folder they are kept in."""

from nandlab.frame.run_directory import read
from nandlab.frame.run_frame import MEANINGLESS, RunFrame

__all__ = ["MEANINGLESS", "RunFrame", "read"]
