"""The command line `nandlab`.

Exit codes: 0 fine, 1 `compare` or `capture --verify` found a difference or `image` damage, 2 bad
input, 3 an image whose form is not certain, 130 stopped with Ctrl-C, 143 with SIGTERM, 141 whoever
read the output has gone.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from nandlab import __version__
from nandlab.errors import NandlabError, UncertainError
from nandlab.interruption import Interrupted, end_with, heed_signals, rest

if TYPE_CHECKING:
    from cyclopts import App

EXIT_DIFFERENT = 1
EXIT_BAD_INPUT = 2
EXIT_UNCERTAIN = 3
EXIT_INTERRUPTED = 130
EXIT_NO_READER = 141
"""That of a program that SIGPIPE has ended: nobody takes a cut listing for a whole one."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code.

    Without arguments they are those of the process, which ends when this returns.
    """
    return heedful(lambda: _outcome(arguments), is_process=arguments is None)


def heedful(work: Callable[[], int], *, is_process: bool) -> int:
    """Carries out work that a signal ends; its exit code, or that of the signal."""
    try:
        heed_signals()
        code = work()
        if is_process:
            rest()
        return code
    except KeyboardInterrupt as reason:
        # A second signal is heeded no more; whoever read the errors may have gone.
        with suppress(OSError):
            print("nandlab: interrupted", file=sys.stderr)
        code = end_with(reason.status if isinstance(reason, Interrupted) else EXIT_INTERRUPTED)
        if is_process:
            rest()
        return code


def _outcome(arguments: Sequence[str] | None) -> int:
    from nandlab.terminal.streams import prepare_streams, silence

    try:
        prepare_streams()
        code = _run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of the pipe has seen enough; without this Python complains once more at exit.
        silence(sys.stdout)
        return EXIT_NO_READER
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        code = _fail(f"{place}{error.strerror or error}")
        try:
            sys.stdout.flush()
        except OSError:
            silence(sys.stdout)
        return code


def _run(arguments: Sequence[str]) -> int:
    from cyclopts import CycloptsError

    from nandlab.cli.standard_input import hide_dashes

    try:
        tokens = hide_dashes(arguments)
        code = application()(tokens, exit_on_error=False, print_error=False, result_action=_code)
        return int(code)
    except CycloptsError as error:
        return _fail(usage_message(error))
    except UncertainError as error:
        _fail(str(error))
        return EXIT_UNCERTAIN
    except NandlabError as error:
        return _fail(str(error))
    except MemoryError:
        return _fail("there is not enough memory; give smaller numbers or fewer --jobs")


def application() -> "App":
    """The commands, in the order of the help."""
    from cyclopts import App

    from nandlab.cli import (
        capture,
        compare,
        convert,
        crash,
        explain,
        image,
        index,
        listing,
        replay,
        report,
        run,
        schedule,
        script,
        validate,
    )

    app = App(
        name="nandlab",
        help="A laboratory for NAND flash storage stacks.\n\n"
        "Exit codes: 0 fine, 1 a comparison found differences, 2 bad input, 3 an image whose form "
        "is not certain, 130 interrupted, 143 terminated.",
        version=__version__,
        help_format="plaintext",
        # Its own answer to Ctrl-C does not know of SIGTERM.
        suppress_keyboard_interrupt=False,
    )
    app.command(run.run)
    app.command(replay.replay)
    app.command(schedule.schedule)
    app.command(script.script)
    app.command(crash.crash)
    app.command(validate.validate)
    app.command(listing.list_command, name="list")
    app.command(explain.explain)
    app.command(convert.convert)
    app.command(image.application())
    app.command(capture.capture)
    app.command(compare.compare)
    app.command(report.report)
    app.command(index.index)
    return app


def usage_message(error: "Exception") -> str:
    """The message of a wrong command line, on one line and with the way to the help.

    The help is that of the command that was called: `nandlab --help` shows no option.
    """
    text = " ".join(str(error).split())
    command = " ".join(["nandlab", *(getattr(error, "command_chain", None) or ())])
    return f"{text} Try `{command} --help`." if "--help" not in text else text


def _code(result: object) -> int:
    return result if isinstance(result, int) else 0


def _fail(message: str) -> int:
    print(f"nandlab: error: {message}", file=sys.stderr)
    return EXIT_BAD_INPUT
