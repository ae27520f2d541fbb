"""The table of all keys of MQSim's files."""

from collections.abc import Iterator

from nandlab.mqsim_files.device_keys import DEVICE_KEYS, FLASH_KEYS, HOST_KEYS
from nandlab.mqsim_files.flow_keys import FLOW_KEYS, SYNTHETIC_KEYS, TRACE_KEYS
from nandlab.mqsim_files.key import FLOWS, SYNTHETIC, TRACE, Key

KEYS = DEVICE_KEYS + FLASH_KEYS + HOST_KEYS + SYNTHETIC_KEYS + TRACE_KEYS + FLOW_KEYS
"""All keys, by section and name; a section that two kinds of flow share comes last."""


def keys_of(section: str) -> dict[str, Key]:
    """Keys that may stand in a section, by name."""
    own = (section, FLOWS) if section in (SYNTHETIC, TRACE) else (section,)
    return {key.name: key for key in KEYS if key.section in own}


def table_lines() -> Iterator[str]:
    """The table of docs/mqsim.md, in Markdown, a line for each key and value with its own fate."""
    yield "| section | key | built-in value | becomes | how, or why not |"
    yield "|---|---|---|---|---|"
    for key in KEYS:
        default = "-" if key.default is None else f"`{key.default}`"
        head = f"| {key.section} | `{key.name}` | {default}"
        yield f"{head} | {key.outcome.fate} | {key.outcome.how} |"
        for value, outcome in sorted((key.by_value or {}).items()):
            yield f"| | `{key.name}` = `{value}` | | {outcome.fate} | {outcome.how} |"
