"""The command line `nandlab`.

`nandlab.cli.commands` lists the commands and the exit statuses. The main help loads no option
parser, nor does a list, and a command is imported when it is called.
"""

import gc
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from nandlab import __version__
from nandlab.errors import NandlabError, UncertainError
from nandlab.interruption import Interrupted, end_with, heed_signals, rest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cyclopts import App

EXIT_DIFFERENT = 1
EXIT_BAD_INPUT = 2
EXIT_UNCERTAIN = 3
EXIT_INTERRUPTED = 130
EXIT_NO_READER = 141
"""Status of a program that SIGPIPE ended: a script must not take a cut listing as complete."""

_OBJECTS_BETWEEN_COLLECTIONS = 20_000
"""The 700 of the interpreter make it look for garbage all the time that a command is loaded."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code.

    Without `arguments` it reads those of the process, which ends when this returns.
    """
    return heedful(lambda: _outcome(arguments), is_process=arguments is None)


def heedful(work: Callable[[], int], *, is_process: bool) -> int:
    """Runs work that a signal may end; returns its exit status, or that of the signal."""
    if is_process:
        gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    try:
        heed_signals()
        code = work()
        if is_process:
            rest()
            # Its memory goes back as a whole: nothing need be looked for in it.
            gc.freeze()
        return code
    except (KeyboardInterrupt, RuntimeError) as error:
        # Python 3.11 wraps what is raised while a class is made (`__set_name__`), and a module that
        # is loaded makes many.
        reason = error.__cause__ if isinstance(error, RuntimeError) else error
        if not isinstance(reason, KeyboardInterrupt):
            raise
        # A second signal is ignored by now; standard error may be closed.
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
        # Python flushes standard output at exit and would report the closed pipe again.
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
    if _is_listed_at_once(arguments):
        return 0
    if (shown := _shown_at_once(arguments)) is not None:
        print(shown)
        return 0
    from cyclopts import CycloptsError

    from nandlab.cli.action import hide_dashes
    from nandlab.cli.command_help import command_help
    from nandlab.cli.main_help import FLAGS

    try:
        app = application()
        if not FLAGS.isdisjoint(arguments):
            words, _, _ = app.parse_commands([one for one in arguments if one not in FLAGS])
            if words:
                print(command_help(app, words))
                return 0
        tokens = hide_dashes(arguments)
        code = app(tokens, exit_on_error=False, print_error=False, result_action=_code)
        return int(code)
    except CycloptsError as error:
        return _fail(usage_message(error))
    except UncertainError as error:
        _fail(str(error))
        return EXIT_UNCERTAIN
    except NandlabError as error:
        return _fail(str(error))
    except MemoryError:
        return _fail("out of memory; give smaller numbers or fewer --jobs")


def _shown_at_once(arguments: Sequence[str]) -> str | None:
    """Output that runs no command: the main help, the version, the help of a command group."""
    from nandlab.cli.main_help import FLAGS, main_help

    if list(arguments) == ["--version"]:
        return __version__
    if not arguments or arguments[0] in FLAGS:
        return main_help()
    if list(arguments) != ["image"]:
        return None
    from nandlab.cli.command_help import command_help

    return command_help(application(), arguments)


def _is_listed_at_once(arguments: Sequence[str]) -> bool:
    """Prints a list that is asked for without an option: the parser takes longer than the list."""
    if len(arguments) != 2 or arguments[0] != "list" or arguments[1].startswith("-"):
        return False
    from nandlab.api.entries import entries
    from nandlab.terminal.listings import print_listing

    try:
        rows = entries(arguments[1])
    except NandlabError:
        # The parser says what is wrong with the arguments.
        return False
    print_listing(arguments[1], rows)
    return True


def application() -> "App":
    """The commands, in the order of the help; each is imported when it is looked at."""
    from cyclopts import App

    from nandlab.cli.commands import COMMANDS

    app = App(
        name="nandlab",
        version=__version__,
        help_format="plaintext",
        # The parser handles Ctrl-C only; `heedful` handles SIGTERM, too.
        suppress_keyboard_interrupt=False,
    )
    for name, (place, _) in COMMANDS.items():
        app.command(f"nandlab.cli.{place}", name=name)
    return app


def usage_message(error: "Exception") -> str:
    """The message of a wrong command line, on one line, with the command that shows help.

    It names the help of the command that was called, as `nandlab --help` lists no options.
    """
    text = " ".join(str(error).split())
    command = " ".join(["nandlab", *(getattr(error, "command_chain", None) or ())])
    return f"{text} Try `{command} --help`." if "--help" not in text else text


def _code(result: object) -> int:
    return result if isinstance(result, int) else 0


def _fail(message: str) -> int:
    print(f"nandlab: error: {message}", file=sys.stderr)
    return EXIT_BAD_INPUT
