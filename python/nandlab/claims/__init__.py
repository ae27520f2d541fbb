"""Claims of publications as data, evaluated to intervals and statuses."""

from nandlab.claims.evaluate import COLUMNS, counts, evaluate
from nandlab.claims.schema import Claim, ClaimFile, Reading, has_claims, load_claims
from nandlab.claims.statistics import Interval, Status

__all__ = [
    "COLUMNS",
    "Claim",
    "ClaimFile",
    "Interval",
    "Reading",
    "Status",
    "counts",
    "evaluate",
    "has_claims",
    "load_claims",
]
