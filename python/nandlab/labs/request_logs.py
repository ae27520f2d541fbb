"""Logs of `nandlab serve`, read request by request, and carried out on another device.

The form of a log is that of crates/lab/serve/src/header.rs and record.rs. `nandlab serve-replay`
carries a log out on the device that it names. Here another layer gets the same requests in the same
order, one at a time.
"""

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nandlab.errors import NandlabError

_MAGIC = b"nandlab serve 1\n"
_SECTOR_BYTES = 512
_READ, _WRITE, _WRITE_FUA, _ZERO, _ZERO_FUA, _DISCARD, _FLUSH, _PASS = range(1, 9)
_END = 11
_WITH_SECTORS = (_READ, _WRITE, _WRITE_FUA, _ZERO, _ZERO_FUA, _DISCARD)

_HANDSHAKE_MAGIC = b"NBDMAGICIHAVEOPT"
_OPTION_MAGIC = b"IHAVEOPT"
_NO_ZEROES = 2
_FIXED_NEWSTYLE = 1
_EXPORT_NAME = 1
_REQUEST_MAGIC = 0x25609513
_REPLY_MAGIC = 0x67446698
_FUA = 1
_DISCONNECT = 2
_COMMANDS = {_READ: 0, _WRITE: 1, _WRITE_FUA: 1, _FLUSH: 3, _DISCARD: 4, _ZERO: 6, _ZERO_FUA: 6}
"""Numbers of the NBD protocol (NetworkBlockDevice/nbd, doc/proto.md, "Request types")."""


@dataclass(frozen=True)
class Request:
    """A request of a log."""

    kind: int
    offset: int
    """Byte of the device."""

    length: int
    data: bytes
    """Bytes of a write."""


def requests(log: Path, *, begin: int = 0, end: int | None = None) -> Iterator[Request]:
    """Requests of a log from the byte `begin` to the byte `end`, or all.

    Raises `NandlabError` for a file that is no such log, that is cut short, or that has power cuts.
    """
    with log.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise NandlabError(f"{log}: no log of nandlab serve: it begins with something else")
        (length,) = struct.unpack("<I", _exactly(file, 4, log))
        file.seek(max(begin, file.tell() + length))
        while end is None or file.tell() < end:
            head = file.read(1)
            if not head or head[0] == _END:
                return
            kind = head[0]
            _exactly(file, 8, log)
            if kind in _WITH_SECTORS:
                sector, sectors = struct.unpack("<QI", _exactly(file, 12, log))
                size = sectors * _SECTOR_BYTES
                is_write = kind in (_WRITE, _WRITE_FUA)
                data = _exactly(file, size, log) if is_write else b""
                yield Request(kind, sector * _SECTOR_BYTES, size, data)
            elif kind == _FLUSH:
                yield Request(kind, 0, 0, b"")
            elif kind != _PASS:
                raise NandlabError(
                    f"{log}: kind {kind} of a record is unknown here: logs with power cuts are "
                    "for nandlab serve-replay"
                )


def _exactly(file: BinaryIO, length: int, log: Path) -> bytes:
    data = file.read(length)
    if len(data) != length:
        raise NandlabError(f"{log}: the log ends within a record: stop the server before")
    return data


class Client:
    """A client of the NBD protocol that has one request outstanding at a time."""

    def __init__(self, path: str) -> None:
        """Connect to the socket file of a server, and take its export without a name."""
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        if self._receive(16) != _HANDSHAKE_MAGIC:
            raise NandlabError(f"{path}: no NBD server of the newstyle handshake answers there")
        self._receive(2)
        flags = _FIXED_NEWSTYLE | _NO_ZEROES
        self._socket.sendall(
            struct.pack(">I", flags) + _OPTION_MAGIC + struct.pack(">II", _EXPORT_NAME, 0)
        )
        self.size_bytes: int
        """Size of the export."""
        self.size_bytes, _ = struct.unpack(">QH", self._receive(10))

    def carry_out(self, request: Request) -> bytes:
        """Send a request and wait for its answer; returns the bytes of a read.

        Raises `NandlabError` if the device refuses it.
        """
        flags = _FUA if request.kind in (_WRITE_FUA, _ZERO_FUA) else 0
        head = (_REQUEST_MAGIC, flags, _COMMANDS[request.kind], 0, request.offset, request.length)
        self._socket.sendall(struct.pack(">IHHQQI", *head) + request.data)
        magic, error, _ = struct.unpack(">IIQ", self._receive(16))
        if magic != _REPLY_MAGIC or error:
            raise NandlabError(
                f"{self._path}: the device answers a request at byte {request.offset} with error "
                f"{error}"
            )
        return self._receive(request.length) if request.kind == _READ else b""

    def close(self) -> None:
        """Leave the server."""
        self._socket.sendall(struct.pack(">IHHQQI", _REQUEST_MAGIC, 0, _DISCONNECT, 0, 0, 0))
        self._socket.close()

    def _receive(self, length: int) -> bytes:
        parts = []
        while length:
            part = self._socket.recv(min(length, 1 << 20))
            if not part:
                raise NandlabError(f"{self._path}: the server ended the connection")
            parts.append(part)
            length -= len(part)
        return b"".join(parts)
