"""Checkpoints and segments of NILFS2 in the columns of lscp and lssu, with times in UTC."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

_CHECKPOINT_HEAD = "                 CNO        DATE     TIME  MODE  FLG      BLKCNT       ICNT"
_SEGMENT_HEAD = "              SEGNUM        DATE     TIME STAT     NBLOCKS"
_NEVER = "---------- --:--:--"


def checkpoint_lines(checkpoints: Sequence[Mapping[str, Any]]) -> list[str]:
    """Checkpoints as `lscp -a` of nilfs-utils 2.2 lists them."""
    return [_CHECKPOINT_HEAD, *map(_checkpoint_line, checkpoints)]


def segment_lines(segments: Sequence[Mapping[str, Any]]) -> list[str]:
    """Segments that are not clean as `lssu` of nilfs-utils 2.2 lists them."""
    return [_SEGMENT_HEAD, *map(_segment_line, segments)]


def time_text(seconds: int) -> str:
    """Seconds since 1970 as date and time, or the number if it is outside the calendar."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return str(seconds)


def _checkpoint_line(row: Mapping[str, Any]) -> str:
    if "not_read" in row:
        return f"checkpoints cannot be read: {row['not_read']}"
    flag = "i" if row["is_minor"] else "-"
    return (
        f"{row['number']:>20}  {time_text(row['created_at'])}   {row['mode']}    {flag} "
        f"{row['blocks']:>12} {row['inodes']:>10}"
    )


def _segment_line(row: Mapping[str, Any]) -> str:
    if "not_read" in row:
        return f"segments cannot be read: {row['not_read']}"
    modified = time_text(row["modified_at"]) if row["modified_at"] else _NEVER
    return f"{row['number']:>20}  {modified}  {row['status']}  {row['blocks']:>10}"
