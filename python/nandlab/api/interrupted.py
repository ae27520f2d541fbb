"""The way out of a call that was interrupted."""


class Interrupted(KeyboardInterrupt):
    """A call was interrupted; `result` holds what was finished, or None.

    The result is that of the call that was interrupted, such as a `Run` with the combinations that
    ended before.
    """

    def __init__(self, message: str, result: object = None) -> None:
        """Keep what was finished."""
        super().__init__(message)
        self.result = result
