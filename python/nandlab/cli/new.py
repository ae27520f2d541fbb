"""`nandlab new`."""

import re
from pathlib import Path
from typing import Literal

from nandlab.api.answer import Answer
from nandlab.cli.action import Given, command
from nandlab.errors import NandlabError
from nandlab.terminal.output import print_text

_FILES = {
    "part": {"part.toml": "{name}.toml"},
    "workload": {"workload.toml": "{name}.toml", "workload.ops": "{name}.ops"},
    "study": {"study.toml": "{name}/study.toml"},
}
"""Files of each kind: the template, and where it is written."""

_NEXT = {
    "part": "nandlab replay TRACE --ftl page --part {file}",
    "workload": "nandlab compare --fs jffs2,ubifs,yaffs2 --blocks 512 --workload {file}",
    "study": "nandlab run {file}",
}
"""What to do with the first file."""


def write_template(
    kind: Literal["part", "workload", "study"], name: str, *, out: Path = Path()
) -> Answer:
    """Write the files of a template; existing files are never replaced.

    Args:
        kind: Kind of the template.
        name: Name of the item: letters, digits, dots, hyphens and underscores.
        out: Write into this folder. Without it: the current folder.

    """
    from nandlab.interruption import held
    from nandlab.outputs import check_file, write_whole

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise NandlabError(
            f"{name!r} is not a name: write up to 64 letters, digits, dots, hyphens and "
            "underscores, such as my-item"
        )
    templates = Path(__file__).parent / "templates"
    targets = {
        out / target.format(name=name): (templates / template).read_text(encoding="utf-8")
        for template, target in _FILES[kind].items()
    }
    for target in targets:
        if target.exists():
            raise NandlabError(f"{target}: the file exists; give another name or remove the file")
        check_file(target)
    # All files or none: a workload without its script would be refused later.
    with held():
        for target, text in targets.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, text.replace("NAME", name).encode())
    files = [str(target) for target in targets]
    return Answer({"files": files, "command": _NEXT[kind].format(file=files[0])})


@command("new", write_template)
def new(found: Answer, given: Given) -> None:
    """Write a commented template of a part, a workload or a study.

    The template runs as it is. Existing files are never replaced.
    """
    for file in found.answer["files"]:
        print_text(f"Wrote {file}")
    print_text(f"Next: {found.answer['command']}")
