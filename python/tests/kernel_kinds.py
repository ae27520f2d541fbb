"""Workloads that make a kernel's scheduler do what plain reads and writes do not."""

import random
from dataclasses import dataclass

from test_kernel_equivalence import TUNABLES, Workload

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True)
class Kind:
    """A kind of workload, the machine that it runs in, and what its recordings must contain.

    `counts` are fields of a recording that must not be 0. `absent` are those that a kernel does
    not show, by its series.
    """

    name: str
    counts: tuple[str, ...]
    absent: tuple[tuple[str, str], ...] = ()
    processors: int = 1
    kernel_arguments: str = ""

    def schedulers(self, series: str) -> tuple[str, ...]:
        """Those that a kernel lets serve the disk: up to 6.9 sfq2 takes none with zones."""
        return ("sfq",) if (self.name, series) == ("zones", "6.1") else ("sfq", "sfq2")

    def needed(self, series: str) -> tuple[str, ...]:
        """The fields of a recording that must not be 0 on a kernel."""
        return tuple(name for name in self.counts if (series, name) not in self.absent)


KINDS = (
    # A process is interrupted while it fills its plug, as on several processors: what others queue
    # meanwhile joins what is in the plug only when that is flushed.
    Kind("joined", ("joins", "absorbs"), kernel_arguments="preempt=full"),
    Kind("returned", ("requeues",)),
    # Linux 6.1 gives no scheduler what writes through a cache (`blk_insert_flush`,
    # block/blk-flush.c).
    Kind("durable", ("discards", "unmergeable"), (("6.1", "unmergeable"),)),
    # Nor the data of a flush, which 6.12 inserts at the head.
    Kind("flushed", ("at_head", "unmergeable"), (("6.1", "at_head"), ("6.1", "unmergeable"))),
    Kind("queues", ("joins", "merges"), processors=4),
    # From 6.10 on the block layer holds writes to a zone back above the scheduler
    # (block/blk-zoned.c).
    Kind("zones", ("zoned",), (("6.12", "zoned"),)),
)


def draw_kind(kind: Kind, scheduler: str, number: int) -> Workload:
    """Draw a workload of a kind."""
    stream = random.Random(f"{kind.name} {scheduler} {number}")
    tunables = TUNABLES[scheduler](stream, number)
    jobs = _DRAWS[kind.name](stream)
    name = f"{kind.name}-{scheduler}-{number:02d}"
    return Workload(name, scheduler, jobs, tunables, is_mounted=kind.name == "flushed")


def _job(
    stream: random.Random,
    kind: str,
    *,
    at: int,
    size: int,
    block: int,
    depth: int,
    count: int,
    pattern: str,
) -> str:
    parts = [kind, at, size, block, depth, count, pattern, stream.randrange(1 << 30)]
    return ",".join(str(part) for part in parts)


def _deep(stream: random.Random, at: int, pattern: str = "rw") -> str:
    """A process whose requests do not merge, and so many that they queue."""
    return _job(
        stream, "direct", at=at, size=8 * MIB, block=4096, depth=48, count=100, pattern=pattern
    )


def _batches(stream: random.Random, at: int, size: int) -> str:
    pattern = stream.choice(["r", "w", "rw"])
    depth = stream.choice([12, 20, 28])
    return _job(
        stream, "batch", at=at, size=size, block=4096, depth=depth, count=8 * depth, pattern=pattern
    )


def _joined(stream: random.Random) -> str:
    # So small that many of the blocks in a plug are neighbours, some of them twice.
    size = stream.choice([128, 256]) * KIB
    jobs = [_batches(stream, 0, size) for _ in range(stream.randint(3, 6))]
    jobs.append(_deep(stream, 16 * MIB))
    return " ".join([stream.choice(["nullb0", "nullb1"]), *jobs])


def _returned(stream: random.Random) -> str:
    jobs = [_deep(stream, 16 * MIB)]
    for place in range(stream.randint(1, 4)):
        kind = stream.choice(["direct", "buffered", "batch"])
        pattern = "w" if kind == "buffered" else stream.choice(["r", "w", "rw", "ws"])
        jobs.append(
            _job(
                stream,
                kind,
                at=2 * place * MIB,
                size=2 * MIB,
                block=4096,
                depth=16,
                count=64,
                pattern=pattern,
            )
        )
    return " ".join(["sfqtest", *jobs])


def _durable(stream: random.Random) -> str:
    jobs = [_deep(stream, 16 * MIB)]
    jobs += [
        _job(
            stream,
            "durable",
            at=0,
            size=2 * MIB,
            block=4096,
            depth=8,
            count=60,
            pattern=stream.choice(["w", "ws"]),
        )
        for _ in range(stream.randint(1, 3))
    ]
    jobs += [
        _job(
            stream,
            "discard",
            at=4 * MIB,
            size=4 * MIB,
            block=64 * KIB,
            depth=1,
            count=40,
            pattern="w",
        )
        for _ in range(stream.randint(1, 3))
    ]
    jobs.append(
        _job(stream, "fsync", at=8 * MIB, size=2 * MIB, block=4096, depth=8, count=64, pattern="w")
    )
    return " ".join(["nullb2", *jobs])


def _queues(stream: random.Random) -> str:
    jobs = [_deep(stream, 32 * place * MIB) for place in range(1, stream.randint(4, 6))]
    jobs += [_batches(stream, 0, 256 * KIB) for _ in range(4)]
    jobs.append(
        _job(stream, "buffered", at=MIB, size=8 * MIB, block=4096, depth=8, count=80, pattern="w")
    )
    return " ".join(["nullb3", *jobs])


def _flushed(stream: random.Random) -> str:
    jobs = [_deep(stream, 8 * MIB)]
    jobs += [
        _job(
            stream,
            kind,
            at=2 * place * MIB,
            size=2 * MIB,
            block=4096,
            depth=4,
            count=40,
            pattern="w",
        )
        for place, kind in enumerate(["fsync", "durable", stream.choice(["fsync", "direct"])])
    ]
    return " ".join(["nullb2", *jobs])


def _zones(stream: random.Random) -> str:
    jobs = [_deep(stream, 0)]
    # One after the other in a zone, and each process in a zone of its own.
    for zone in range(4, 4 + stream.randint(3, 6)):
        block, depth = stream.choice([4096, 16384]), stream.choice([4, 12])
        jobs.append(
            _job(
                stream,
                "direct",
                at=4 * zone * MIB,
                size=4 * MIB,
                block=block,
                depth=depth,
                count=80,
                pattern="ws",
            )
        )
    jobs.append(
        _job(
            stream, "buffered", at=8 * MIB, size=4 * MIB, block=4096, depth=8, count=64, pattern="w"
        )
    )
    return " ".join(["nullb4", *jobs])


_DRAWS = {
    "durable": _durable,
    "flushed": _flushed,
    "joined": _joined,
    "queues": _queues,
    "returned": _returned,
    "zones": _zones,
}
