"""The one exception for input that nandlab cannot work with."""


class NandlabError(ValueError):
    """Bad input. The message is complete: where, what is wrong, and what to do about it."""
