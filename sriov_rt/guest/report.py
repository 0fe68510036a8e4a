# SPDX-License-Identifier: Apache-2.0

"""Report of guest hooks: changes, notes and refusals."""

import dataclasses
import json
from collections.abc import Iterable
from collections.abc import Mapping

from sriov_rt.guest.xml import Element
from sriov_rt.guest.xml import attributes
from sriov_rt.reason import Reason
from sriov_rt.reason import first_of

#: Children of a device, and their attributes, that distinguish it from others
#: of its kind.
_TELLING = (
    ("model", ("type", "name")),
    ("target", ("dev", "bus", "type", "name", "dir")),
    ("mac", ("address",)),
    ("backend", ("model",)),
)
_PCI = ("domain", "bus", "slot", "function")
_OWN = ("type", "model", "bus", "mode", "index")

#: The longest text of a document that a report repeats, in characters.
_LONGEST = 120

#: The most changes or notes that a summary names.
_MOST = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One thing that a hook changed in a domain.

    :param hook: the name of the hook.
    :param action: ``removed``, ``added`` or ``set``.
    :param detail: which element it was, or its new attributes.
    :param why: a clause.
    """

    hook: str
    action: str
    element: str
    detail: str
    why: str

    def __str__(self) -> str:
        what = f"{self.element} {self.detail}" if self.detail else self.element
        return f"{self.action} {what}: {self.why}"


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """A sentence on something that a hook left unchanged, and why."""

    hook: str
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """Changes and notes of the hooks, in the hooks' order."""

    changes: tuple[Change, ...]
    notes: tuple[Note, ...]

    def to_json(self) -> str:
        """Return the report as JSON text, indented."""
        plain = dataclasses.asdict(self)
        return json.dumps(plain, indent=2, ensure_ascii=False)

    def summary(self) -> str:
        """Return one line for a log."""
        if not self.changes and not self.notes:
            return "nothing to change"
        parts = []
        for action in ("removed", "added", "set"):
            names = [
                f"{each.element} {each.detail}".rstrip()
                for each in self.changes
                if each.action == action
            ]
            if names:
                parts.append(f"{action} {first_of(names, _MOST)}")
        if self.notes:
            texts = [each.message for each in self.notes]
            parts.append(f"left alone: {first_of(texts, _MOST)}")
        return "; ".join(parts)


class Recorder:
    """Record of the changes of one hook."""

    def __init__(self, hook: str) -> None:
        self.hook = hook
        self.changes: list[Change] = []
        self.marks: dict[str, str] = {}
        self.notes: list[str] = []
        self.refusals: list[Reason] = []

    def removed(self, elements: Iterable[Element], why: str) -> None:
        """Record elements that were removed."""
        for each in elements:
            detail = describe(each)
            self.changes.append(
                Change(self.hook, "removed", each.tag, detail, why)
            )

    def changed(
        self, action: str, name: str, now: Mapping[str, str], why: str
    ) -> None:
        """Record an element that was ``added`` or ``set``.

        :param now: the attributes that distinguish it.
        """
        detail = " ".join(f"{key}={text}" for key, text in now.items())
        self.changes.append(Change(self.hook, action, name, detail, why))

    def note(self, message: str) -> None:
        """Record something that is left unchanged."""
        self.notes.append(message)

    def mark(self, name: str, value: str) -> None:
        """Record an attribute for the domain's metadata."""
        self.marks[name] = value

    def refuse(self, reason: Reason) -> None:
        """Record why the domain cannot satisfy the Request."""
        self.refusals.append(reason)

    def elements(self) -> set[str]:
        """Return the names of the elements that were changed."""
        return {each.element for each in self.changes}


def build(recorders: Iterable[Recorder]) -> Report:
    """Return the report of what hooks recorded."""
    every = tuple(recorders)
    return Report(
        tuple(change for each in every for change in each.changes),
        tuple(Note(each.hook, text) for each in every for text in each.notes),
    )


def describe(device: Element) -> str:
    """Return what distinguishes a device from others of its kind.

    :param device: a child of ``<devices>``.
    :returns: such as ``type=vnc``; empty if there is nothing.
    """
    own = attributes(device)
    parts = [f"{name}={clean(own[name])}" for name in _OWN if name in own]
    if not len(device):
        return " ".join(parts)
    for tag, names in _TELLING:
        child = device.find(tag)
        if child is not None:
            had = attributes(child)
            parts += [f"{tag}.{n}={clean(had[n])}" for n in names if n in had]
    address = device.find("address")
    if address is not None and address.get("type") == "pci":
        place = ":".join(address.get(name, "0") for name in _PCI)
        parts.append(f"pci={clean(place)}")
    return " ".join(parts)


def clean(text: str) -> str:
    """Return text from a document as one short line for a log."""
    if len(text) <= _LONGEST and text.isprintable():
        return text
    return repr(text[:_LONGEST])
