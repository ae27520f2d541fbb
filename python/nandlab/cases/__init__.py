"""Studies of cases: several mixes of processes, simulated and in real kernels, as one run.

- `schema` reads `cases.toml`, which lies beside the study file.
- `simulated` has the engine carry out a case on a device.
- `in_kernels` has real kernels carry out the same.
- `measured` makes the same rows of both.
- `study` plans and runs all of it, and answers in the form of the engine.
"""

from nandlab.cases.schema import CASES, has_cases

__all__ = ["CASES", "has_cases"]
