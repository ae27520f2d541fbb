"""A run's rows as one polars frame with typed axes."""

from nandlab.frame.run_frame import MEANINGLESS, RunFrame, from_answer, read, typed_columns

__all__ = ["MEANINGLESS", "RunFrame", "from_answer", "read", "typed_columns"]
