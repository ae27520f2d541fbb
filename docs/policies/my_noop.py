"""NOOP: first in, first out, and neighbours in the list are joined."""

from nandlab.policy import IoRequest, Scheduler


class MyNoop(Scheduler):
    """Gives requests in the order in which they came."""

    sorts_dispatch = True

    def __init__(self) -> None:
        self.waiting: list[IoRequest] = []

    def insert(self, now_ns: int, request: IoRequest) -> None:
        self.waiting.append(request)

    def dispatch(self, now_ns: int, force: bool) -> IoRequest | None:
        return self.waiting.pop(0) if self.waiting else None

    def absorb(self, now_ns: int, survivor: IoRequest, absorbed: IoRequest) -> None:
        self.waiting.remove(absorbed)

    def former(self, request: IoRequest) -> IoRequest | None:
        place = self.waiting.index(request)
        return self.waiting[place - 1] if place else None

    def latter(self, request: IoRequest) -> IoRequest | None:
        return next(iter(self.waiting[self.waiting.index(request) + 1 :]), None)
