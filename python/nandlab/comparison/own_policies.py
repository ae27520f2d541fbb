"""Policies of the user's own among the candidates; their files go beside the study."""

from dataclasses import dataclass, field
from pathlib import Path

from nandlab.comparison.named import Named
from nandlab.errors import NandlabError
from nandlab.policy.loading import OF_FILE, OwnPolicy, register

_KIND_OF_LISTING = {"ftls": "layer", "schedulers": "scheduler", "policies": "cleaning"}
"""Kinds of policy by the listing of the built-in ones."""


@dataclass
class OwnPolicies:
    """The policies that options name, and their files, each once."""

    files: list[Named] = field(default_factory=list)

    def take(self, option: str, given: str, listing: str) -> str | None:
        """The name of a policy in the study; None for a word that names none of the user's own.

        A file is named by its last part, for its copy lies beside the study.

        Raises `NandlabError` for a policy that cannot be loaded, or of another kind.
        """
        wanted = _KIND_OF_LISTING.get(listing)
        # File systems are no policies: what looks like one is an unknown name.
        found = register([given]) if wanted is not None else []
        if not found:
            return None
        policy = found[0]
        if policy.kind != wanted:
            raise NandlabError(
                f"{option}: {given} is of the kind {policy.kind}, and this option takes {wanted}"
            )
        return self._named(option, policy)

    def _named(self, option: str, policy: OwnPolicy) -> str:
        matched = OF_FILE.fullmatch(policy.name)
        if policy.source is None:
            return policy.name
        name = policy.source.name
        others = [one.file for one in self.files if one.name == name]
        if not others:
            self.files.append(Named(name, policy.source))
        elif not _is_same(others[0], policy.source):
            raise NandlabError(
                f"{option}: {policy.source} and {others[0]} have the same name; rename one of them"
            )
        return policy.name if matched is None else f"{name}:{matched['class']}"


def _is_same(one: Path | None, other: Path) -> bool:
    return one is not None and one.samefile(other)
