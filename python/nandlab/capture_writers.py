"""How the files of a capture get to the disk: each synced, or by a lazy writer.

`synced` is a copy that ends with an fsync. `lazy` approximates the cache manager of Windows, whose
lazy writer queues an eighth of the dirty pages once a second (Russinovich, Solomon, Ionescu:
Windows Internals, sixth edition, part 2, chapter 11). The guest program starts the write-out of an
eighth of the dirty bytes of copied files each second. The flusher of Linux writes the metadata.

How much is written then depends on how long a file lies on the disk before it is deleted. So a copy
takes the time of reading its source. The source is a desktop disk of 2005: a mean seek of 11 ms and
half a turn of 4.16 ms (Seagate Barracuda 7200.9), and 25 MB/s. The rate is an assumption, for the
publication that the workload follows names no source.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class CaptureWriter:
    """One way in which files get to the disk.

    `settings` says what the guest does, with units in the names; `limits` are the kernel's
    settings below /proc/sys/vm; `options` are those of the guest program.
    """

    name: str
    settings: dict[str, int] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    options: str = ""

    @property
    def commands(self) -> str:
        """The shell commands that set the kernel's limits, one a line."""
        return "".join(
            f"echo {value} > /proc/sys/vm/{name}\n" for name, value in self.limits.items()
        )


_SOURCE = {"source_bytes_per_second": 25_000_000, "source_access_microseconds": 15_000}

CAPTURE_WRITERS = {
    writer.name: writer
    for writer in (
        CaptureWriter("synced"),
        CaptureWriter(
            "lazy",
            settings={
                "write_out_interval_ms": 1_000,
                "write_out_parts_of_dirty": 8,
                "write_out_unit_bytes": 65_536,
                **_SOURCE,
            },
            # More than the disk holds, so that no limit on dirty pages starts write-out. The
            # flusher looks once a second for what is older than eight seconds. At an eighth a
            # second, that is the age which the lazy writer of Windows aims at, for metadata too.
            limits={
                "dirty_bytes": 512 << 20,
                "dirty_background_bytes": 256 << 20,
                "dirty_writeback_centisecs": 100,
                "dirty_expire_centisecs": 800,
            },
            options="".join(
                f" --{name.replace('_', '-')} {value}" for name, value in _SOURCE.items()
            ),
        ),
    )
}
