"""The journal of UBIFS in a dump of a chip, node by node, read by hand and not by the engine."""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

PAGE_BYTES = 2048
OOB_BYTES = 64
BLOCK_PAGES = 64

_EC_MAGIC = b"UBI#"
_VID_MAGIC = b"UBI!"
_NODE_MAGIC = 0x06101831
_PADDING_BYTE = 0xCE
_HEADER_BYTES = 24

# Kinds of nodes, as fs/ubifs/ubifs-media.h numbers them.
_INODE, _DATA, _ENTRY, _ATTRIBUTE, _TRUNCATION, _PADDING = range(6)
_SUPERBLOCK, _MASTER, _REFERENCE, _INDEX, _COMMIT_START = range(6, 11)

_KINDS = {
    _INODE: "inode",
    _DATA: "data",
    _ENTRY: "entry",
    _ATTRIBUTE: "attribute",
    _TRUNCATION: "truncation",
    _PADDING: "padding",
}
_GROUPS = {0: "alone", 1: "in a group", 2: "last of a group"}

_MASTER_LEBS = (1, 2)
_LOG_LEB = 3


@dataclass(frozen=True)
class JournalNode:
    """A node of the journal without what two runs of one script need not share.

    That is: times, checksums, cookies, absolute sequence numbers. `fields` holds the rest by name.
    """

    kind: str
    bytes: int
    leb: int
    offset: int
    group: str
    key: tuple[int, int] | None
    fields: tuple[tuple[str, object], ...]

    def __str__(self) -> str:
        """The node on one line, for messages."""
        fields = ", ".join(f"{name} {value!r}" for name, value in self.fields)
        key = "" if self.key is None else f", key {self.key[0]}:{self.key[1]:#x}"
        place = f"LEB {self.leb}:{self.offset}"
        return f"{place}: {self.kind} of {self.bytes} bytes, {self.group}{key}: {fields}"


@dataclass(frozen=True)
class _Node:
    """A whole node and where it begins."""

    offset: int
    kind: int
    group: int
    sequence: int
    data: bytes

    def number(self, layout: str, at: int) -> int:
        (value,) = struct.unpack_from("<" + layout, self.data, at)
        return int(value)


def journal(dump: bytes) -> list[JournalNode]:
    """All nodes of the journal: eraseblock by eraseblock in the order in which the log names them.

    Args:
        dump: data and spare areas of every page, 2048 and 64 bytes, 64 pages a block.

    Raises:
        ValueError: there is no file system, or the journal holds what cannot be in it.
    """
    volume = _volume(dump)
    found = []
    for leb, start in _buds(volume):
        last = -1
        for node in _nodes(volume.get(leb, b""), start):
            if node.kind != _PADDING and node.sequence <= last:
                raise ValueError(f"LEB {leb}:{node.offset}: sequence numbers do not grow")
            last = max(last, node.sequence)
            found.append(_described(leb, node))
    return found


def differences(one: list[JournalNode], other: list[JournalNode]) -> list[str]:
    """What differs between two journals: lines for each node that the other does not have."""
    lines = []
    places = {(node.leb, node.offset): node for node in one}
    others = {(node.leb, node.offset): node for node in other}
    for place in sorted(places.keys() | others.keys()):
        left, right = places.get(place), others.get(place)
        if left != right:
            lines += [f"- {left}" if left else "- nothing", f"+ {right}" if right else "+ nothing"]
    order = [(node.leb, node.offset) for node in one] == [(node.leb, node.offset) for node in other]
    if not lines and not order:
        lines.append("the log names eraseblocks in another order")
    return lines


def _volume(dump: bytes) -> dict[int, bytes]:
    """The eraseblocks of volume 0 by number, each as its newest block has it."""
    stride = (PAGE_BYTES + OOB_BYTES) * BLOCK_PAGES
    newest: dict[int, tuple[int, bytes]] = {}
    for begin in range(0, len(dump), stride):
        pages = range(begin, begin + stride, PAGE_BYTES + OOB_BYTES)
        block = b"".join(dump[page : page + PAGE_BYTES] for page in pages)
        if block[:4] != _EC_MAGIC:
            continue
        header_at, data_at = struct.unpack_from(">II", block, 16)
        header = block[header_at : header_at + 64]
        if header[:4] != _VID_MAGIC or not _is_sound(header[:60], header[60:64], ">I"):
            continue
        volume, leb = struct.unpack_from(">II", header, 8)
        (sequence,) = struct.unpack_from(">Q", header, 40)
        if volume == 0 and (leb not in newest or newest[leb][0] < sequence):
            newest[leb] = (sequence, block[data_at:])
    return {leb: data for leb, (_, data) in newest.items()}


def _is_sound(data: bytes, stored: bytes, layout: str) -> bool:
    # CRC-32 without the final inversion, as the kernel's crc32(UINT_MAX, ...) leaves it.
    (expected,) = struct.unpack(layout, stored)
    return zlib.crc32(data) ^ 0xFFFFFFFF == expected


def _buds(volume: dict[int, bytes]) -> list[tuple[int, int]]:
    """Eraseblocks of the journal and where it begins in them, in the order of the log."""
    masters = [node for leb in _MASTER_LEBS for node in _nodes(volume.get(leb, b""), 0)]
    masters = [node for node in masters if node.kind == _MASTER]
    if not masters:
        raise ValueError("no master node: this is no dump of UBIFS")
    newest = max(masters, key=lambda node: node.sequence)
    log_leb, commit = newest.number("I", 44), newest.number("Q", 32)
    (superblock, *_) = _nodes(volume.get(0, b""), 0)
    log_lebs = superblock.number("I", 56)
    buds: dict[int, int] = {}
    first = None
    for step in range(log_lebs):
        leb = _LOG_LEB + (log_leb - _LOG_LEB + step) % log_lebs
        nodes = list(_nodes(volume.get(leb, b""), 0))
        if first is None:
            if not nodes or nodes[0].kind != _COMMIT_START or nodes[0].number("Q", 24) != commit:
                raise ValueError("the log does not begin with the commit of the master node")
            first = nodes[0].sequence
        if not nodes or nodes[0].sequence < first:
            break
        for node in nodes:
            if node.kind == _REFERENCE:
                buds.setdefault(node.number("I", 24), node.number("I", 28))
    return list(buds.items())


def _nodes(leb: bytes, start: int) -> Iterator[_Node]:
    """Whole nodes from a place on, in steps of eight bytes, up to what is blank or torn."""
    at = start
    while at + 8 <= len(leb):
        if leb[at] == _PADDING_BYTE:
            at += 8
            continue
        if at + _HEADER_BYTES > len(leb):
            return
        magic, crc, sequence, length, kind, group = struct.unpack_from("<IIQIBB", leb, at)
        data = leb[at : at + length]
        if magic != _NODE_MAGIC or len(data) < _HEADER_BYTES or len(data) != length:
            return
        if not _is_sound(data[8:], struct.pack("<I", crc), "<I"):
            return
        yield _Node(at, kind, group, sequence, data)
        if kind == _PADDING:
            length += struct.unpack_from("<I", data, _HEADER_BYTES)[0]
        at += (length + 7) // 8 * 8


def _described(leb: int, node: _Node) -> JournalNode:
    if node.kind not in _KINDS:
        raise ValueError(f"LEB {leb}:{node.offset}: a node of kind {node.kind} in the journal")
    key = None
    if node.kind <= _ATTRIBUTE:
        key = (node.number("I", 24), node.number("I", 28))
    return JournalNode(
        kind=_KINDS[node.kind],
        bytes=len(node.data),
        leb=leb,
        offset=node.offset,
        group=_GROUPS.get(node.group, str(node.group)),
        key=key,
        fields=tuple(_fields(node)),
    )


_INODE_FIELDS = (
    ("size", "Q", 48),
    ("nlink", "I", 92),
    ("uid", "I", 96),
    ("gid", "I", 100),
    ("mode", "I", 104),
    ("flags", "I", 108),
    ("data_len", "I", 112),
    ("xattr_cnt", "I", 116),
    ("xattr_size", "I", 120),
    ("xattr_names", "I", 128),
    ("compr_type", "H", 132),
)


def _fields(node: _Node) -> Iterator[tuple[str, object]]:
    match node.kind:
        case 0:
            for name, layout, at in _INODE_FIELDS:
                yield name, node.number(layout, at)
            yield "data", node.data[160:]
        case 1:
            yield "size", node.number("I", 40)
            yield "compr_type", node.number("H", 44)
        case 2 | 3:
            yield "inode", node.number("Q", 40)
            yield "type", node.number("B", 49)
            yield "name", node.data[56 : 56 + node.number("H", 50)]
        case 4:
            yield "inode", node.number("I", 24)
            yield "old_size", node.number("Q", 40)
            yield "new_size", node.number("Q", 48)
        case 5:
            yield "more", node.number("I", 24)
