"""Writes docs/findings.md: the verdicts of whole runs that are on record beside each study."""

import sys
from pathlib import Path
from typing import Any

from generated_page import DOCS, write_or_check

from nandlab.claims.record import load_record, recorded_counts
from nandlab.claims.schema import load_claims
from nandlab.present.spec import load_report
from nandlab.study_files import shipped_studies

HEAD = """# Findings

Made by `make docs` from the verdicts on record: do not edit. Each table shows the claims of one
publication under the first reading of its study, as its whole run found them. The digest names the
results. `make reproduce-full` repeats them. The rules are in
[Studies](studies.md#how-a-claim-is-judged).

A contradicted claim contradicts the reading of the publication that the study simulates. It is no
refutation of the publication.
"""


def page() -> str:
    """The page as text."""
    parts = [HEAD]
    missing = []
    for name, path in shipped_studies().items():
        record = load_record(path.parent)
        if record is None:
            missing.append(name)
        else:
            parts.append(_section(name, path.parent, record))
    if missing:
        listed = ", ".join(f"`{name}`" for name in missing)
        parts.append(f"## Without a record\n\nNo whole run is on record of {listed}.\n")
    return "\n".join(parts)


def _section(name: str, folder: Path, record: dict[str, Any]) -> str:
    definitions = load_claims(folder)
    publication = load_report(folder, definitions).publication
    counts = ", ".join(f"{count} {status}" for status, count in recorded_counts(record).items())
    title = f"\n\n{publication['title']}." if publication.get("title") else ""
    lines = [
        f"## {name}{title}",
        "",
        f"Claims: {counts}. Digest of the results: `{record['results_digest'][:16]}`.",
        "",
        "| claim | where | estimate | 95 % interval | n | status |",
        "|---|---|---:|---:|---:|---|",
    ]
    for one in definitions.claims:
        found = record["claims"][one.identifier]
        n = "-" if found["n"] is None else f"{found['n']:,}"
        cells = (one.text, one.where, _shown(found["estimate"]), _interval(found), n)
        lines.append(f"| {' | '.join(cells)} | {found['status']} |")
    return "\n".join([*lines, ""])


def _interval(found: dict[str, Any]) -> str:
    if found["low"] is None or found["high"] is None:
        return "-"
    return f"{_shown(found['low'])} to {_shown(found['high'])}"


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}"


if __name__ == "__main__":
    sys.exit(write_or_check(DOCS / "findings.md", page, __doc__, None))
