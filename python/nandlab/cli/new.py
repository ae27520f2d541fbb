"""`nandlab new`."""

from pathlib import Path
from typing import Literal

from nandlab.cli.output_options import Output

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


def new(
    kind: Literal["part", "workload", "study"],
    name: str,
    /,
    *,
    out: Path = Path(),
    output: Output | None = None,
) -> int:
    """Write a commented template of a part, a workload or a study.

    The template runs as it is. Existing files are never replaced.

    Parameters
    ----------
    kind
        Kind of the template.
    name
        Name of the item: letters, digits, dots, hyphens and underscores.
    out
        Write into this folder. Without it: the current folder.
    output
        How to print the answer.

    """
    import re

    from nandlab.cli.output_options import form_of
    from nandlab.errors import NandlabError
    from nandlab.interruption import held
    from nandlab.outputs import check_file, write_whole
    from nandlab.terminal.output import print_json, print_text

    form = form_of(output)
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
    command = _NEXT[kind].format(file=files[0])
    if form == "json":
        print_json("new", {"files": files, "command": command})
    else:
        print_text("\n".join((*(f"Wrote {file}" for file in files), f"Next: {command}")))
    return 0
