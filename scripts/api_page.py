"""Writes docs/api.md from the docstrings of everything that `import nandlab` makes public."""

import ast
import dataclasses
import inspect
import itertools
import re
import sys
from collections.abc import Iterator

from generated_page import DOCS, write_or_check

import nandlab

HEAD = """# Python API

Made by `make docs` from the docstrings: do not edit. The [notebooks](notebooks) show the API at
work.

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
    parts = [HEAD, "## Functions\n"]
    parts += [_function(f"nl.{name}", one) for name, one in sorted(functions.items())]
    parts.append("## Classes\n")
    for name, one in sorted(classes.items()):
        parts.append(f"### nl.{name}\n\n{_text(name, one)}\n")
        parts += [_member(name, member) for member in _members(one)]
    return "\n".join(parts)


def _members(one: type) -> Iterator[tuple[str, object, str]]:
    """Own public members, with their docstrings: fields, methods and properties."""
    yield from ((name, None, text) for name, text in _fields(one))
    for name, member in vars(one).items():
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
    return f"### {name}\n\n```python\n{name}{_signature(one)}\n```\n\n{_text(name, one)}\n"


def _signature(one: object, *, is_method: bool = False) -> str:
    assert callable(one)
    signature = inspect.signature(one)
    parameters = list(signature.parameters.values())
    if is_method:
        signature = signature.replace(parameters=parameters[1:])
    # Neither the quotes of a type nor the modules in front of it say anything here.
    bare = re.sub(r"'((?:[a-z_]+\.)*[A-Z]\w*)'", r"\1", str(signature))
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", bare)


def _text(name: str, one: object) -> str:
    text = inspect.getdoc(one)
    if not text:
        raise ValueError(f"{name} has no docstring")
    return text


def _flat(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.exit(write_or_check(DOCS / "api.md", page, __doc__, None))
