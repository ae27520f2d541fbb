"""`--set name=value` for one translation layer."""

from nandlab.errors import NandlabError


def parse_settings(given: list[str] | None) -> dict[str, str]:
    """Settings by name."""
    settings = {}
    for one in given or []:
        name, equals, value = one.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise NandlabError(f"--set {one}: write it as NAME=VALUE, such as --set log_blocks=16")
        settings[name.strip()] = value.strip()
    return settings
