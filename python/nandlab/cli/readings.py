"""`nandlab readings`."""

from nandlab.api import readings as api
from nandlab.cli.action import Given, command
from nandlab.readings.page import tables_of
from nandlab.terminal.output import print_text


@command("readings", api.search_readings)
def readings(found: api.Readings, given: Given) -> None:
    """Search what publications leave unsaid, and score every joint reading.

    The file readings.toml of a study names what is unsaid, with its options. Runs that several
    readings share are carried out once and kept on disk, so a stopped search goes on later.
    Several studies are scored jointly: choices of the same name are one.
    """
    for table in tables_of(found.answer):
        table.print()
        if table.caption:
            print_text(table.caption)
    print_text(f"\nDigest: {found.answer['digest']}")
