"""The exceptions for input that nandlab cannot work with."""


class NandlabError(ValueError):
    """Bad input. The message is complete: where, what is wrong, and what to do about it."""

    result: object = None
    """What was finished all the same, where only a file could not be written; or None."""


class UncertainError(NandlabError):
    """An image in which something is found, but not enough to be believed; exit status 3."""


class MachineError(NandlabError):
    """A worker or a cluster that is lost. The input may be right: a later call tries it again."""
