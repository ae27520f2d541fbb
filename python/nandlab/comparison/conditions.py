"""Under which conditions candidates were compared: an answer holds for these alone."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_STATES = {
    "none": "as delivered: erased",
    "image": "after the set-up of the trace",
    "image-and-pass": "after the set-up of the trace and one pass of it",
}
"""What a device went through before a trace is counted, by the word of a workload file."""

_PERCENT_OF_SIZE = "size"


Conditions = list[tuple[str, str]]


def conditions(study: Mapping[str, Any]) -> Conditions:
    """Kernel, profiles, board, part, state of the flash, seed and repeats, each with its name."""
    stacks: Sequence[Mapping[str, Any]] = study.get("stacks") or ()
    told = _of_stacks(stacks, study) if stacks else _of_layers(study)
    return [*told, ("seed", str(study.get("seed"))), ("repeats", str(study.get("repeats", 1)))]


def in_words(told: Conditions) -> str:
    """The conditions in one line."""
    return "; ".join(f"{name} {value}" for name, value in told)


def _of_stacks(stacks: Sequence[Mapping[str, Any]], study: Mapping[str, Any]) -> Conditions:
    kernels = _each(stack["kernel"] for stack in stacks)
    return [
        ("kernel", f"{kernels} ({_profiles(stacks)})"),
        ("board", _each(stack["board"] for stack in stacks)),
        ("part", _each(f"{stack['part']} of {stack['blocks']:,} blocks" for stack in stacks)),
        ("flash", _each(_flash(stack, study) for stack in stacks)),
    ]


def _profiles(stacks: Sequence[Mapping[str, Any]]) -> str:
    """By which code each file system is simulated, and which kernels it stands for."""
    names: dict[str, list[str]] = {}
    for stack in stacks:
        stands = f", which stands for {stack['kernels']}" if stack.get("kernels") else ""
        of_profile = names.setdefault(f"profile {stack['profile']}{stands}", [])
        if stack["file_system"] not in of_profile:
            of_profile.append(str(stack["file_system"]))
    if len(names) == 1:
        return next(iter(names))
    return "; ".join(f"{', '.join(of_profile)}: {text}" for text, of_profile in names.items())


def _flash(stack: Mapping[str, Any], study: Mapping[str, Any]) -> str:
    state = (study.get("flash_states") or {}).get(stack["flash"])
    if state is None:
        return str(stack["flash"])
    told = []
    if state.get("free_mib") is not None:
        told.append(f"filled until {state['free_mib']} MiB are free")
    elif state.get("fill_percent"):
        of = state.get("percent_of", _PERCENT_OF_SIZE)
        usable = "" if of == _PERCENT_OF_SIZE else f" of what is {of}"
        told.append(f"{state['fill_percent']} %{usable} full")
    if state.get("rewritten_percent"):
        told.append(f"{state['rewritten_percent']} % rewritten")
    return " and ".join(told) or "in use, but empty"


def _of_layers(study: Mapping[str, Any]) -> Conditions:
    if "ftl" not in (study.get("axes") or {}):
        return []
    part, blocks = str(study.get("part")), study.get("blocks")
    told = [("part", f"{part} of {blocks:,} blocks" if blocks else part)]
    state = _STATES.get(str((study.get("workload") or {}).get("preconditioning")), "")
    return told + ([("the device", state)] if state else [])


def _each(words: Iterable[Any]) -> str:
    return ", ".join(dict.fromkeys(str(word) for word in words))
