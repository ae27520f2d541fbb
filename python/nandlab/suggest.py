"""Did-you-mean for names that are not known."""

import difflib
from collections.abc import Iterable


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """A message for an unknown name: the nearest known one, and all of them."""
    names = sorted(known)
    question = did_you_mean(name, names)
    return f"unknown {what} {name!r}: {question}known are {', '.join(names) or 'none'}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question after the nearest known name, if one is near."""
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    return f"did you mean {near[0]}? " if near else ""
