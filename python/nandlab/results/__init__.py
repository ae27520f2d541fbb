"""Results of a study: rows, statistics over them, and the folder they are kept in."""

from nandlab.results.measurements import Measurements
from nandlab.results.study_result import StudyResult, Table

__all__ = ["Measurements", "StudyResult", "Table"]
