"""`nandlab check`."""

from nandlab.api import policies as api
from nandlab.cli.action import Given, command
from nandlab.terminal.output import print_text
from nandlab.terminal.tables import Column, print_rows, text_column

_COUNTS = (text_column("checked", "what"), Column("count", "count"))


@command("check", api.check)
def check(found: api.PolicyCheck, given: Given) -> None:
    """Check a policy of your own: a layer, a scheduler, cleaning, wear levelling, admission.

    Random sequences are compared with a model. A layer keeps its pages across power cuts and while
    blocks go bad. A scheduler dispatches each request once, and in the same order each time. A
    device keeps its sectors, whatever its cache admits. The first sequence that fails is made as
    short as possible and printed.

    docs/policies.md shows a policy of each kind. The exit status is 1 if one does not pass.
    """
    answer = found.answer
    title = f"{answer['policy']} ({answer['kind']})"
    if answer["passed"]:
        print_rows(f"{title}: passed", _COUNTS, found.rows)
        return
    print_text(f"{title}: does not pass")
    print_text(f"  {answer['broke']}")
    print_text(f"On: {answer['conditions']}")
    print_text("The shortest sequence found that shows it:")
    for number, operation in enumerate(answer["operations"], 1):
        print_text(f"  {number}. {operation}")
    kept = answer["sequences_kept"]
    print_text(f"Sequences that passed before it: {kept}. Seed: {answer['seed']}.")
