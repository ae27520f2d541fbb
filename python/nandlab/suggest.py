"""Did-you-mean for names that are not known."""

import difflib
from collections.abc import Iterable


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """A message for an unknown name: the nearest known one, and all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    question = f"did you mean {near[0]}? " if near else ""
    return f"unknown {what} {name!r}: {question}known are {', '.join(names) or 'none'}"
