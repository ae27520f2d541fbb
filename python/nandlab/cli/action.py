"""A command made of a call of the Python API: its options are the parameters of that call.

A command adds the description in its help and how the answer looks on a terminal. Everything else
is the same for all commands: JSON and CSV, complaints, interruptions, exit statuses.
"""

import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from nandlab.api.answer import Answer
from nandlab.api.interrupted import Interrupted
from nandlab.cli import EXIT_DIFFERENT
from nandlab.cli.output_options import chosen_form
from nandlab.errors import NandlabError

STAND_IN = "(standard input)"
"""What an argument `-` is replaced by, which the option parser would read as an option."""

_JSON = "Print JSON, as --output-format json does."
_FORM = "Print the answer in this form."

Given = Mapping[str, Any]
Names = Mapping[str, str | tuple[str, ...]]


def command(
    name: str,
    action: Callable[..., Answer],
    *,
    separated: str | None = None,
    names: Names | None = None,
    prefix: str = "",
) -> Callable[[Callable[[Any, Given], None]], Callable[..., int]]:
    """Makes a command of what prints the answer of `action` as a table.

    The function that is decorated takes the answer and the parameters of the call; its docstring
    is the description in the help. `names` has the options that are called otherwise than their
    parameters. `prefix` stands before every complaint.
    """

    def made(show: Callable[[Any, Given], None]) -> Callable[..., int]:
        signature = _signature(action, separated, names or {})

        def called(*arguments: object, **options: object) -> int:
            given = dict(signature.bind(*arguments, **options).arguments)
            form = chosen_form(
                given.pop("output_format", "table"), is_json=given.pop("json", False)
            )
            given = {key: _value(key, one) for key, one in given.items() if one is not None}

            def report(answer: Answer) -> int:
                for complaint in answer.complaints:
                    print(f"{prefix}{complaint}", file=sys.stderr)
                _print(name, answer, form, lambda: show(answer, given))
                return 0 if answer.is_clean else EXIT_DIFFERENT

            return _carry_out(action, given, report)

        called.__name__, called.__doc__ = show.__name__, show.__doc__
        called.__module__ = show.__module__
        called.__signature__ = signature  # type: ignore[attr-defined]
        called.__annotations__ = {key: one.annotation for key, one in signature.parameters.items()}
        return called

    return made


def _carry_out(action: Callable[..., Answer], given: Given, report: Callable[[Answer], int]) -> int:
    """Calls the action and reports its answer, also that of a call that did not end well."""
    from nandlab.interruption import received

    try:
        return report(action(**given))
    except NandlabError as error:
        if isinstance(error.result, Answer):
            report(error.result)
        raise
    except Interrupted as error:
        if isinstance(error.result, Answer):
            report(error.result)
        print(error, file=sys.stderr)
        raise received() or KeyboardInterrupt from None


def _print(name: str, answer: Answer, form: str, show: Callable[[], None]) -> None:
    from nandlab.terminal.output import print_json

    if form == "json":
        print_json(name, answer.answer)
    elif form == "table":
        show()
    else:
        sys.stdout.write(answer.text)


def _signature(
    action: Callable[..., Answer], separated: str | None, names: Names
) -> inspect.Signature:
    """The options of a command; a group of parameters of the action becomes an option each."""
    hints = typing.get_type_hints(action, include_extras=True)
    texts = parameter_texts(action)
    parameters = []
    for parameter in inspect.signature(action).parameters.values():
        hint = hints[parameter.name]
        if parameter.kind is not parameter.VAR_KEYWORD:
            option = _option(parameter.name, hint, texts[parameter.name], names)
            is_named = parameter.kind is parameter.KEYWORD_ONLY
            kind = parameter.kind if is_named else parameter.POSITIONAL_ONLY
            default = None if parameter.default == () else parameter.default
            parameters.append(parameter.replace(kind=kind, annotation=option, default=default))
            continue
        (group,) = typing.get_args(hint)
        for key, one in typing.get_type_hints(group).items():
            option = _option(key, one, parameter_texts(group)[key], names)
            default = False if one is bool else None
            parameters.append(_named(key, option, default))
    forms = Literal["table", "json"] if separated is None else Literal["table", "json", separated]
    parameters.append(_named("json", _option("json", bool, _JSON, names), False))
    parameters.append(_named("output_format", _option("", forms, _FORM, names), "table"))
    return inspect.Signature(parameters)


def _named(name: str, annotation: Any, default: object) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=annotation, default=default)


def _option(name: str, hint: Any, text: str, names: Names) -> Any:
    """The type of an option with its help: the first type that the parameter may have."""
    is_optional = False
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        is_optional = type(None) in typing.get_args(hint)
        hint = typing.get_args(hint)[0]
    origin = typing.get_origin(hint)
    if origin in (Mapping, Sequence):
        hint, is_optional = list[str], True
    spelled = "--set" if origin is Mapping else names.get(name)
    # Only a switch that has three states has a way to say no.
    negative = None if is_optional and hint is bool else ()
    return Annotated[
        hint | None if is_optional else hint,
        Parameter(name=spelled, help=text, negative=negative),
    ]


def parameter_texts(documented: object) -> dict[str, str]:
    """What a docstring says of each parameter, in its last section."""
    _, _, section = (inspect.getdoc(documented) or "").partition("Args:\n")
    entries = (entry.partition(":") for entry in re.split(r"\n(?=    \S)", section))
    return {name.strip(): " ".join(text.split()) for name, _, text in entries}


def _value(name: str, given: object) -> object:
    if str(given) == STAND_IN:
        return "-"
    return parse_settings(given) if name == "settings" and isinstance(given, list) else given


def parse_settings(given: Sequence[str]) -> dict[str, str]:
    """Settings by name, of words NAME=VALUE."""
    settings = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise NandlabError(f"--set {one}: write it as NAME=VALUE, such as --set log_blocks=16")
        settings[name.strip()] = value.strip()
    return settings


def hide_dashes(tokens: Sequence[str]) -> list[str]:
    """Replaces every argument `-` by a placeholder."""
    return [STAND_IN if token == "-" else token for token in tokens]
