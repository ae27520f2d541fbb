"""A worker process of this machine: takes batches from its input, and answers with their results.

Each message is an object in the form of `pickle`: first the study, then batch after batch.
"""

import os
import pickle
import signal
import sys

from nandlab.cells.work import Bundle, Done, carry_out
from nandlab.errors import NandlabError


def main() -> None:
    """Works until the input ends."""
    # Ctrl-C goes to all processes of a terminal: the one that asked ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    # What a policy prints must not stand between the answers.
    os.dup2(2, 1)
    requests = sys.stdin.buffer
    bundle: Bundle = pickle.load(requests)
    while True:
        try:
            batch = pickle.load(requests)
        except EOFError:
            return
        try:
            done = carry_out(bundle, batch, f"worker process {os.getpid()}")
        except NandlabError as error:
            done = Done((), [], refused=str(error))
        pickle.dump(done, answers)
        answers.flush()


if __name__ == "__main__":
    main()
