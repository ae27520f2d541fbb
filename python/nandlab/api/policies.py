"""The check of a policy as a Python call."""

from dataclasses import dataclass

from nandlab.api.answer import Answer
from nandlab.errors import NandlabError

SEQUENCES = 200
OPERATIONS = 120
OPERATIONS_MAX = 100_000
"""A sequence is held in memory, and is carried out some hundred times when it is made shorter."""


@dataclass(frozen=True)
class PolicyCheck(Answer):
    """What was checked of a policy, or the shortest sequence found that it does not keep."""


def check(
    policy: str,
    *,
    sequences: int = SEQUENCES,
    operations: int = OPERATIONS,
    seed: int = 1,
) -> PolicyCheck:
    """Check what every policy of its kind keeps.

    Raises `NandlabError` for a policy that cannot be loaded.

    Args:
        policy: Policy, as FILE.py:CLASS or as the name of an entry point. Built-in names work too.
        sequences: Carry out this many random sequences.
        operations: Make each sequence of this many operations.
        seed: Draw the sequences from this seed.

    """
    from nandlab import engine
    from nandlab.byte_sizes import natural_number
    from nandlab.policy.loading import register
    from nandlab.terminal.progress import progress_bar

    natural_number("--sequences", sequences, bits=32)
    natural_number("--operations", operations, bits=32)
    if operations > OPERATIONS_MAX:
        raise NandlabError(
            f"--operations {operations}: must be at most {OPERATIONS_MAX}; more sequences find "
            "more than longer ones"
        )
    natural_number("--seed", seed, least=0, bits=64)
    own = register([policy])
    kind = own[0].kind if own else _built_in_kind(policy)
    with progress_bar(policy) as progress:
        found = engine.check_policy(kind, policy, sequences, operations, seed, progress)
    answer = {"policy": policy, "kind": kind, "seed": seed, **found}
    rows = found.get("checked", ())
    return PolicyCheck(answer, rows, is_clean=found["passed"])


def _built_in_kind(name: str) -> str:
    """The kind of a policy that comes with nandlab."""
    from nandlab.api.entries import entries
    from nandlab.suggest import unknown

    known: list[str] = []
    for kind, table in (("layer", "ftls"), ("cleaning", "policies"), ("scheduler", "schedulers")):
        names = [str(entry["name"]) for entry in entries(table)]
        if name in names:
            return kind
        known += names
    if ".py" in name:
        raise NandlabError(f"{name}: name the class after the file, as in my.py:MyLayer")
    raise NandlabError(unknown("policy", name, known))
