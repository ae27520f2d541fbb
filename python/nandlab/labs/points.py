"""Where the power fails: numbers that are given, or drawn from a seed."""

import random
from collections.abc import Sequence

from nandlab.byte_sizes import natural_number
from nandlab.errors import NandlabError
from nandlab.labs.found import Counted, Cut


def given_points(texts: Sequence[str], counted: Counted, items: int) -> list[Cut]:
    """Cut points as a user writes them: numbers, several in a text with commas between them.

    Raises `NandlabError` for what is no number, and for an item that is never acknowledged.
    """
    numbers = []
    for word in (word.strip() for text in texts for word in text.split(",")):
        if not (word.isascii() and word.isdecimal()) or len(word) > 18:
            raise NandlabError(f"--at: {word!r} is not a number; write --at 5 or --at 5,20,80")
        numbers.append(natural_number("--at", int(word)))
    if counted == "acknowledgements" and max(numbers) > items:
        raise NandlabError(
            f"--at: the recipe acknowledges {items} items; {max(numbers)} must be at most {items}"
        )
    return [Cut(counted, number) for number in numbers]


def drawn_points(count: int, counted: Counted, first: int, last: int, seed: int) -> list[Cut]:
    """So many cut points from `first` to `last`; fewer of them are the first of more."""
    numbers = random.Random(f"power cuts {seed}")
    return [Cut(counted, numbers.randint(first, last)) for _ in range(count)]
