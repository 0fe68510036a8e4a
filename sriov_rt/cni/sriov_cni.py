# SPDX-License-Identifier: Apache-2.0

"""Settings of sriov-cni on the VFs of pods, from its own state files.

sriov-cni keeps the configuration of each VF that it has set up, to undo it
(SaveNetConf in its pkg/utils/utils.go; NetConf in its pkg/types/types.go).
"""

import dataclasses
import itertools
import pathlib
import types
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt import exceptions
from sriov_rt import files
from sriov_rt.kernel.vf import LinkState
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.kernel.vf import VlanProtocol
from sriov_rt.nic.model import BASELINE

#: The longest file, bytes, and the most files: 512 interfaces of pods.
_MAX_FILE = 64 * 1024
_MAX_FILES = 4096

_SWITCH: Mapping[str, bool] = types.MappingProxyType(
    {"on": True, "off": False}
)
_PROTOCOLS: Mapping[str, VlanProtocol] = types.MappingProxyType(
    {each.value: each for each in VlanProtocol}
)
_LINK: Mapping[str, LinkState] = types.MappingProxyType(
    {each.value: each for each in LinkState}
)

#: Key of a state file to the field of VfSettings.
_NUMBERS: Mapping[str, str] = types.MappingProxyType(
    {
        "vlan": "vlan",
        "vlanQoS": "qos",
        "min_tx_rate": "min_tx_rate",
        "max_tx_rate": "max_tx_rate",
    }
)
_WORDS: Mapping[str, tuple[str, Mapping[str, Any]]] = types.MappingProxyType(
    {
        "vlanProto": ("vlan_protocol", _PROTOCOLS),
        "spoofchk": ("spoofchk", _SWITCH),
        "trust": ("trust", _SWITCH),
        "link_state": ("link_state", _LINK),
    }
)


class CniUnknown(exceptions.SriovRtError):
    """The settings that a network requires of a VF are unknown.

    :param vf: its PCI address.
    :param problem: a clause, with what to do.
    """

    def __init__(self, vf: str, problem: str) -> None:
        super().__init__(f"VF {vf}: {problem}")


def settings(vf: str, directory: pathlib.Path) -> VfSettings:
    """Return the desired settings of a VF: the baseline with its network's.

    :param vf: its PCI address.
    :param directory: directory of sriov-cni's notes.
    :raises CniUnknown: if sriov-cni has no readable note of it.
    """
    newest, note = 0.0, None
    damaged = (0.0, "")
    try:
        for changed, name, plain in _notes(directory):
            if plain is None:
                damaged = max(damaged, (changed, name))
            elif plain.get("deviceID") == vf and changed >= newest:
                newest, note = changed, plain
    except files.Unusable as error:
        raise CniUnknown(
            vf,
            f"sriov-cni's notes in {directory} are not read "
            f"({exceptions.plain(error)}); remove those whose container ID no "
            "pod of this node has",
        ) from None
    except OSError as error:
        raise CniUnknown(
            vf,
            f"sriov-cni's notes cannot be read ({exceptions.plain(error)}); "
            f"mount {directory} into the node hook's container",
        ) from None
    when, name = damaged
    if name and when >= newest:
        # It may be the VF's note, and the readable one an earlier pod's.
        raise CniUnknown(
            vf,
            f"sriov-cni's note {directory / name} is damaged and "
            "may be of it; start the VMI again, and remove the note if no "
            "pod of this node has its container ID",
        )
    if note is None:
        raise CniUnknown(
            vf,
            f"no network has set it up by {directory}; attach it by sriov-cni"
            ", whose settings alone are known",
        )
    try:
        return _settings(note)
    except codec.SchemaError as error:
        raise CniUnknown(
            vf,
            f"sriov-cni's note of it cannot be read ({error}); check that "
            "sriov-cni and sriov-rt are of releases that work together",
        ) from None


def _notes(
    directory: pathlib.Path,
) -> Iterator[tuple[float, str, Mapping[str, Any] | None]]:
    """Yield the time, name and content of each note.

    The content is None if a note is damaged or half written.

    :raises OSError: if they cannot be read, or are too many.
    """
    names = list(itertools.islice(directory.iterdir(), _MAX_FILES + 1))
    if len(names) > _MAX_FILES:
        raise files.Unusable(f"more than {_MAX_FILES} files")
    for path in names:
        try:
            changed = path.stat().st_mtime
            data = files.read(path, _MAX_FILE)
            plain = documents.plain(data, _MAX_FILE)
        except (files.Unusable, IsADirectoryError, FileNotFoundError):
            continue  # the directory of addresses, or a note just deleted
        except codec.SchemaError:
            plain = None
        yield changed, path.name, plain if type(plain) is dict else None


def _settings(note: Mapping[str, Any]) -> VfSettings:
    given: dict[str, Any] = {}
    mac = note.get("MAC")
    if type(mac) is str and mac:
        given["mac"] = mac.lower()
    for key, field in _NUMBERS.items():
        if (number := note.get(key)) is not None:
            if type(number) is not int:
                raise codec.SchemaError(key, "whole number expected")
            given[field] = number
    for key, (field, known) in _WORDS.items():
        if word := note.get(key):
            if type(word) is not str or word.lower() not in known:
                raise codec.SchemaError(
                    key, f"one of {', '.join(known)} expected"
                )
            given[field] = known[word.lower()]
    return dataclasses.replace(BASELINE, **given)
