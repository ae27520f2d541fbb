"""Starts a program that dies with whoever started it, even if that is killed.

A machine of gigabytes must not outlive the command that booted it. Linux sends the signal of
`PR_SET_PDEATHSIG` (prctl(2)) to a process when the thread that made it ends, for whatever reason.
It is set here, in the new process, and survives `execve`: calling code between `fork` and `exec`
of a process with threads may block for ever.

Run as `python leash.py PARENT PROGRAM ARGUMENT...`; it stands in a session of its own, so that the
Ctrl-C of a terminal reaches the command alone.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_NO_PARENT = 125


def main() -> None:
    """Binds this process to its parent and becomes the program."""
    parent, *command = sys.argv[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The parent may have ended before the call.
    if os.getppid() != int(parent):
        sys.exit(_NO_PARENT)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
