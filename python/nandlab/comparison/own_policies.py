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
        if not policy.sources:
            return policy.name
        # The modules that a policy imports keep their places beside it.
        folder = policy.sources[0].parent
        for source in policy.sources:
            self._keep(option, source.relative_to(folder).as_posix(), source)
        return policy.name if matched is None else f"{policy.sources[0].name}:{matched['class']}"

    def _keep(self, option: str, name: str, source: Path) -> None:
        """Copies a file beside the study under this name, once."""
        others = [one.file for one in self.files if one.name == name]
        if not others:
            self.files.append(Named(name, source))
        elif not _is_same(others[0], source):
            raise NandlabError(
                f"{option}: {source} and {others[0]} have the same name; rename one of them"
            )


def _is_same(one: Path | None, other: Path) -> bool:
    return one is not None and one.samefile(other)
