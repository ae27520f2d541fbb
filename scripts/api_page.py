"""Writes docs/api.md from the docstrings of everything that `import nandlab` makes public."""

import ast
import dataclasses
import inspect
import itertools
import re
import sys
import typing
from collections.abc import Iterator
from typing import Any

from generated_page import DOCS, write_or_check

import nandlab
from nandlab.cli.action import parameter_texts

HEAD = """# Python API

Made by `make docs` from the docstrings: do not edit. The [notebooks](notebooks) show the API at
work.

A parameter has the name of the command's option, with underscores. A mapping of names to values
stands for repeated options NAME=VALUE, and a list for an option that is repeated. Messages name
options as the command line writes them.

```python
import nandlab as nl

run = nl.run("ftl-windows", quick=True)
run.wide("page_programs", "erases")
```
"""


def page() -> str:
    """The page as text. Raises `ValueError` if a public name has no docstring."""
    public = {name: getattr(nandlab, name) for name in nandlab.__all__ if not name.startswith("_")}
    functions = {name: one for name, one in public.items() if inspect.isfunction(one)}
    classes = {name: one for name, one in public.items() if inspect.isclass(one)}
    for module_name, module in public.items():
        if inspect.ismodule(module):
            own = {name: one for name, one in vars(module).items() if _is_own(module, name, one)}
            functions |= {f"{module_name}.{name}": one for name, one in own.items()}
    groups = {group.__name__: group for one in functions.values() for group in _groups(one)}
    parts = [HEAD, "## Functions\n"]
    parts += [_function(f"nl.{name}", one) for name, one in sorted(functions.items())]
    parts.append("## Groups of options\n")
    parts += [f"### {name}\n\n{_text(name, one)}\n" for name, one in sorted(groups.items())]
    parts.append("## Classes\n")
    for name, one in sorted(classes.items()):
        parts.append(f"### nl.{name}\n\n{_text(name, one)}\n")
        if nandlab.Answer in one.__bases__:
            parts.append("It has all that an [Answer](#nlanswer) has, and:\n")
        parts += [_member(name, member) for member in _members(one)]
    return "\n".join(parts)


def _is_own(module: object, name: str, one: object) -> bool:
    is_public = inspect.isfunction(one) and not name.startswith("_")
    return is_public and one.__module__ == getattr(module, "__name__", "")


def _groups(one: object) -> Iterator[type]:
    """The groups of options that a function takes besides its own."""
    for hint in inspect.get_annotations(typing.cast(Any, one)).values():
        if typing.get_origin(hint) is typing.Unpack:
            yield from typing.get_args(hint)


def _members(one: type) -> Iterator[tuple[str, object, str]]:
    """Own public members, with their docstrings: fields, methods and properties."""
    fields = dict(_fields(one))
    yield from ((name, None, text) for name, text in fields.items())
    for name, member in vars(one).items():
        if name in fields:
            continue
        if name == "__init__" and not dataclasses.is_dataclass(one):
            yield name, member, inspect.getdoc(member) or ""
        elif not name.startswith("_"):
            found = getattr(member, "func", getattr(member, "__func__", member))
            yield name, member, inspect.getdoc(found) or ""


def _fields(one: type) -> Iterator[tuple[str, str]]:
    """Public fields with the strings below them, which only the source holds."""
    (body,) = ast.parse(inspect.getsource(one)).body
    assert isinstance(body, ast.ClassDef)
    initial = [step for step in body.body if getattr(step, "name", "") == "__init__"]
    for holder in (body, *initial):
        for step, after in itertools.pairwise(getattr(holder, "body", [])):
            target = (
                step.targets[0] if isinstance(step, ast.Assign) else getattr(step, "target", None)
            )
            name = getattr(target, "attr", getattr(target, "id", "_"))
            if not name.startswith("_"):
                has_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                yield name, str(after.value.value) if has_text else ""


def _member(owner: str, member: tuple[str, object, str]) -> str:
    name, one, text = member
    if not text:
        raise ValueError(f"{owner}.{name} has no docstring")
    found = getattr(one, "__func__", one)
    if inspect.isfunction(found):
        shown = owner if name == "__init__" else f"{owner}.{name}"
        return f"- `{shown}{_signature(found, is_method=True)}`: {_flat(text)}"
    return f"- `{owner}.{name}`: {_flat(text)}"


def _function(name: str, one: object) -> str:
    assert callable(one)
    groups = "".join(
        f"- the options of [{group.__name__}](#{group.__name__.lower()})\n"
        for group in _groups(one)
    )
    shown = f"{_text(name, one)}\n{groups}"
    return f"### {name}\n\n```python\n{name}{_signature(one)}\n```\n\n{shown}"


def _signature(one: object, *, is_method: bool = False) -> str:
    assert callable(one)
    signature = inspect.signature(one)
    parameters = list(signature.parameters.values())
    if is_method:
        signature = signature.replace(parameters=parameters[1:])
    # Neither the quotes of a type nor the modules in front of it say anything here.
    bare = re.sub(r"'((?:[a-z_]+\.)*[A-Z]\w*)'", r"\1", str(signature))
    # `inspect` spells a group of options as a class in angle brackets.
    bare = re.sub(r"\*\*\w+: \*<class (?:\w+\.)*(\w+)>", r"**\1", bare)
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", bare)


def _text(name: str, one: object) -> str:
    """The docstring, with its parameters as a list."""
    text = inspect.getdoc(one)
    if not text:
        raise ValueError(f"{name} has no docstring")
    before, _, after = text.partition("Args:\n")
    if not after:
        return text
    listed = [f"- `{key}`: {meaning}" for key, meaning in parameter_texts(one).items()]
    return "\n".join([before.rstrip(), "", *listed])


def _flat(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.exit(write_or_check(DOCS / "api.md", page, __doc__, None))
