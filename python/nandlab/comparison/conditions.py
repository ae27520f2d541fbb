"""Under which conditions candidates were compared: an answer holds for these alone."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nandlab.comparison.beside import PAUSES
from nandlab.comparison.cards import layer_of
from nandlab.frame import RunFrame
from nandlab.present.units import estimate_text

_STATES = {
    "none": "as delivered: erased",
    "image": "after the set-up of the trace",
    "image-and-pass": "after the set-up of the trace and one pass of it",
}
"""What a device went through before a trace is counted, by the word of a workload file."""

_AGED = "filled and rewritten a month before, then mounted and at rest"
_FRESH = "formatted a month before, then mounted and at rest"
_CARD = "cards as delivered"
"""What a file system went through before its work is counted."""

_PERCENT_OF_SIZE = "size"


Conditions = list[tuple[str, str]]


def conditions(run: RunFrame) -> Conditions:
    """What the figures hold for, each with its name.

    Part, kernel and profiles, board, device, fill, preconditioning, seed, repeats and the totals of
    the workload: those of the first candidate that has finished.
    """
    study = run.study
    stacks: Sequence[Mapping[str, Any]] = study.get("stacks") or ()
    told = _of_stacks(stacks, study) if stacks else _of_layers(study)
    told += [("seed", str(study.get("seed"))), ("repeats", str(study.get("repeats", 1)))]
    totals = workload_totals(run)
    return [*told, ("workload", totals)] if totals else told


def workload_totals(run: RunFrame) -> str:
    """What the workload did: calls or requests, bytes written and read, and its pauses."""
    from nandlab.comparison.candidates import candidates

    usable = [one for one in candidates(run) if not one.is_full]
    if not usable:
        return ""
    values = usable[0].values
    told = [
        f"{values[metric]:,.0f} {what}"
        for metric, what in (("call_calls", "calls"), ("host_requests", "requests"))
        if metric in values
    ]
    for metric, what in (("host_write_bytes", "written"), ("host_read_bytes", "read")):
        if metric in values:
            told.append(f"{estimate_text(values[metric], 'bytes')} {what}")
    if pauses_s := run.beside.get(PAUSES, 0):
        told.append(f"{estimate_text(pauses_s, 's')} of pauses")
    workload = run.study.get("workload") or {}
    name = workload.get("script") or workload.get("file") or workload.get("options")
    return f"{name}: {', '.join(told)}" if name else ", ".join(told)


def _of_stacks(stacks: Sequence[Mapping[str, Any]], study: Mapping[str, Any]) -> Conditions:
    by_kernel: dict[str, list[Mapping[str, Any]]] = {}
    for stack in stacks:
        by_kernel.setdefault(str(stack["kernel"]), []).append(stack)
    kernels = (f"{kernel} ({_profiles(of_kernel)})" for kernel, of_kernel in by_kernel.items())
    is_aged = any(_state(stack, study) is not None for stack in stacks)
    before = [_AGED if is_aged else _FRESH]
    before += [_CARD] if any(_device(stack).startswith("card") for stack in stacks) else []
    return [
        ("part", _each(f"{stack['part']} of {stack['blocks']:,} blocks" for stack in stacks)),
        ("kernel", ", ".join(kernels)),
        ("board", _each(stack["board"] for stack in stacks)),
        ("device", _each(_device(stack) for stack in stacks)),
        ("fill", _each(_flash(stack, study) for stack in stacks)),
        ("preconditioning", "; ".join(before)),
    ]


def _device(stack: Mapping[str, Any]) -> str:
    """What a file system stands on."""
    device = stack.get("block_device")
    if device is None:
        return "the chip itself"
    return str(device) if device == "mtdblock" else f"card with {layer_of(str(device))}"


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


def _state(stack: Mapping[str, Any], study: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The history of the flash of a stack; none of fresh flash."""
    found: Mapping[str, Any] | None = (study.get("flash_states") or {}).get(stack["flash"])
    return found


def _flash(stack: Mapping[str, Any], study: Mapping[str, Any]) -> str:
    state = _state(stack, study)
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
    axes = study.get("axes") or {}
    if "ftl" not in axes:
        return []
    blocks = study.get("blocks")
    parts = [str(one) for one in axes.get("part") or (study.get("part"),)]
    told = [("part", ", ".join(f"{one} of {blocks:,} blocks" if blocks else one for one in parts))]
    told.append(("device", "the layer on the chip itself, without a host"))
    state = _STATES.get(str((study.get("workload") or {}).get("preconditioning")), "")
    return told + ([("preconditioning", state)] if state else [])


def _each(words: Iterable[Any]) -> str:
    return ", ".join(dict.fromkeys(str(word) for word in words))
