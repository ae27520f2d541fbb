"""Sections of MQSim's files as values by key, checked against the table of keys."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from nandlab.errors import NandlabError
from nandlab.mqsim_files.key import DEVICE, FLASH, HOST, SYNTHETIC, TRACE, Fate, Key, Kind
from nandlab.mqsim_files.keys import keys_of
from nandlab.mqsim_files.xml_files import Element, read_xml
from nandlab.suggest import did_you_mean

_LIST_MAX = 4_096
"""Numbers of a list: more than a device has channels, chips, dies or planes."""


@dataclass(frozen=True)
class Given:
    """A key that stands in a file, with its text as MQSim understands it."""

    place: str
    key: Key
    value: str


@dataclass(frozen=True)
class Section:
    """Values of a section: those of the file, and for the rest what MQSim has built in."""

    name: str
    place: str
    given: Mapping[str, Given]

    def word(self, name: str) -> str:
        """The text of a key. Raises `NandlabError` if it is missing and nothing is built in."""
        if name in self.given:
            return self.given[name].value
        default = keys_of(self.name)[name].default
        if default is None:
            raise NandlabError(f"{self.place}: `{name}` is missing; add it to `{self.name}`")
        return default

    def count(self, name: str) -> int:
        """A whole number."""
        return int(self.word(name))

    def share(self, name: str) -> Fraction:
        """A number with decimals, exactly as it is written."""
        return Fraction(self.word(name))

    def is_on(self, name: str) -> bool:
        """A switch: as in MQSim all but `false` switches it on."""
        return self.word(name) != "false"

    def numbers(self, name: str) -> frozenset[int]:
        """Numbers between commas."""
        return frozenset(map(int, self.word(name).split(",")))

    def refuse(self, name: str, reason: str) -> NandlabError:
        """The error that says what is wrong with a key; its line is that of the section's key."""
        place = self.given[name].place if name in self.given else self.place
        return NandlabError(f"{place}: `{name}` {reason}")


@dataclass(frozen=True)
class DeviceFile:
    """What ssdconfig.xml says."""

    path: str
    host: Section
    device: Section
    flash: Section

    @property
    def given(self) -> Iterator[Given]:
        """All keys that stand in the file."""
        for section in (self.device, self.flash, self.host):
            yield from section.given.values()


def read_device_file(path: str | Path) -> DeviceFile:
    """Reads ssdconfig.xml. Raises `NandlabError` with line, key and what to do."""
    root = read_xml(path, "Execution_Parameter_Set")
    host, device = _parts(path, root, HOST, DEVICE)
    flash = [child for child in device.children if child.name == FLASH]
    if len(flash) > 1:
        raise NandlabError(f"{path}: line {flash[1].line}: a second `{FLASH}`; leave one out")
    if not flash:
        raise NandlabError(f"{path}: line {device.line}: `{FLASH}` is missing in `{DEVICE}`")
    return DeviceFile(
        str(path),
        _section(path, host, ()),
        _section(path, device, (FLASH,)),
        _section(path, flash[0], ()),
    )


def read_workload_file(path: str | Path) -> list[list[Section]]:
    """Reads workload.xml: the flows of each scenario."""
    root = read_xml(path, "MQSim_IO_Scenarios")
    scenarios = []
    for scenario in root.children:
        _expect(path, scenario, ("IO_Scenario",))
        for flow in scenario.children:
            _expect(path, flow, (SYNTHETIC, TRACE))
        if not 1 <= len(scenario.children) <= 8:
            raise NandlabError(
                f"{path}: line {scenario.line}: a scenario of {len(scenario.children)} flows; "
                "MQSim takes 1 to 8"
            )
        scenarios.append([_section(path, flow, ()) for flow in scenario.children])
    if not scenarios:
        raise NandlabError(f"{path}: line {root.line}: no `IO_Scenario`; add one")
    return scenarios


def _parts(path: str | Path, root: Element, *names: str) -> list[Element]:
    found = {child.name: child for child in root.children}
    for child in root.children:
        _expect(path, child, names)
        if found[child.name] is not child:
            raise NandlabError(
                f"{path}: line {found[child.name].line}: a second `{child.name}`; leave one out"
            )
    for name in names:
        if name not in found:
            raise NandlabError(f"{path}: line {root.line}: `{name}` is missing in `{root.name}`")
    return [found[name] for name in names]


def _expect(path: str | Path, element: Element, names: Iterable[str]) -> None:
    if element.name not in names:
        question = did_you_mean(element.name, names)
        raise NandlabError(
            f"{path}: line {element.line}: unknown section `{element.name}`: "
            f"{question}known are {', '.join(names)}"
        )


def _section(path: str | Path, element: Element, within: tuple[str, ...]) -> Section:
    keys = keys_of(element.name)
    given: dict[str, Given] = {}
    for child in element.children:
        if child.name in within:
            continue
        place = f"{path}: line {child.line}"
        if child.name not in keys:
            question = did_you_mean(child.name, keys)
            raise NandlabError(
                f"{place}: unknown key `{child.name}`: {question}"
                f"`{element.name}` has no such key, and MQSim would pass over it"
            )
        if child.children:
            raise NandlabError(f"{place}: `{child.name}` holds elements, but takes a value")
        if child.name in given:
            raise NandlabError(f"{place}: a second `{child.name}`; leave one out")
        one = Given(place, keys[child.name], _value(place, keys[child.name], child.text))
        outcome = one.key.outcome_of(one.value)
        if outcome.fate is Fate.REFUSED:
            raise NandlabError(f"{place}: `{child.name}` = {one.value}: {outcome.how}")
        given[child.name] = one
    return Section(element.name, f"{path}: line {element.line}", given)


def _value(place: str, key: Key, text: str) -> str:
    """The text of a value as MQSim understands it. Raises `NandlabError` if it takes no such."""
    takes = str(key.kind)
    if key.kind is Kind.WORD:
        if text.upper() in key.words:
            return text.upper()
        question = did_you_mean(text.upper(), key.words)
        takes = f"{question}it takes {', '.join(key.words)}"
        raise NandlabError(f"{place}: `{key.name}` is `{_short(text)}`: {takes}")
    if key.kind is Kind.SWITCH:
        return "false" if text.lower() == "false" else "true"
    if key.kind is Kind.PATH and text:
        return text
    if key.kind is Kind.NUMBERS:
        numbers = [one.strip() for one in text.split(",")]
        if len(numbers) <= _LIST_MAX and all(_is_count(one) for one in numbers):
            return ",".join(str(int(one)) for one in numbers)
    elif key.kind in (Kind.COUNT, Kind.PERCENT) and _is_count(text):
        most = 100 if key.kind is Kind.PERCENT else key.most
        if key.least <= int(text) <= most:
            return str(int(text))
        takes = f"{key.least:,} to {most:,}"
    elif key.kind in (Kind.DECIMAL, Kind.SHARE) and (number := _decimal(text)) is not None:
        if 0 <= number <= (1 if key.kind is Kind.SHARE else 1_000):
            return text
        takes = "0 to 1" if key.kind is Kind.SHARE else "0 to 1,000"
    raise NandlabError(f"{place}: `{key.name}` is `{_short(text)}`, but takes {takes}")


def _is_count(text: str) -> bool:
    """True of digits, few enough that Python turns them into a number without a limit."""
    return text.isascii() and text.isdigit() and len(text) <= 20


def _decimal(text: str) -> float | None:
    try:
        number = float(text) if len(text) <= 40 and "_" not in text else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _short(text: str) -> str:
    """A text in a message: one line of it, and not too long."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."
