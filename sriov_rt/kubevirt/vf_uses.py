# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Records of VFs that VMIs have, so that each is cleaned after its use."""

import dataclasses
import json
import pathlib

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt import exceptions
from sriov_rt import files
from sriov_rt.parse import errors
from sriov_rt.parse import pci

#: They end with the boot, as VFs do.
DIRECTORY = pathlib.Path("/run/sriov-rt/kubevirt")

_SCHEMA = 1
_MAX_FILE = 4096
_SUFFIX = ".json"


class RecordsUnusable(exceptions.SriovRtError):
    """It cannot be recorded which VMIs have which VFs.

    :param directory: of the records.
    :param problem: a clause.
    """

    def __init__(self, directory: pathlib.Path, problem: str) -> None:
        super().__init__(
            f"VFs of VMIs cannot be recorded in {directory} ({problem}); "
            "mount a directory there that root alone may write"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class VfUse:
    """A VF that a VMI has, or had.

    :param vf: its PCI address.
    :param uid: of the VMI; empty if the record is damaged.
    :param vmi: its namespace and name.
    :param ready: whether the VF was clean before the VMI got it.
    :param reason: why it could not be cleaned afterwards, a sentence.
    """

    vf: str
    uid: str
    vmi: str
    ready: bool = False
    reason: str = ""


class VfUses:
    """The records of one node.

    :param directory: where they are, a file a VF; made if need be.
    """

    def __init__(self, directory: pathlib.Path = DIRECTORY) -> None:
        self._directory = directory

    def all(self) -> tuple[VfUse, ...]:
        """Return all records, by VF; a damaged one is of nobody.

        :raises RecordsUnusable: if they cannot be read.
        """
        try:
            names = sorted(each.name for each in self._directory.iterdir())
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise self._unusable(error) from None
        found = []
        for name in names:
            try:
                vf = str(pci.PciAddress.parse(name.removesuffix(_SUFFIX)))
            except errors.ParseError:
                continue  # one that is being written
            found.append(self._read(vf))
        return tuple(each for each in found if each is not None)

    def get(self, vf: str) -> VfUse | None:
        """Return the record of a VF."""
        return self._read(vf)

    def put(self, use: VfUse) -> None:
        """Write a record.

        :raises RecordsUnusable: if it cannot be written.
        """
        text = json.dumps({"schema": _SCHEMA, **codec.to_plain(use)})
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.check_directory(self._directory)
            files.replace(self._path(use.vf), text.encode())
        except OSError as error:
            raise self._unusable(error) from None

    def remove(self, vf: str) -> None:
        """Remove the record of a VF that is clean."""
        try:
            self._path(vf).unlink(missing_ok=True)
        except OSError as error:
            raise self._unusable(error) from None

    def _read(self, vf: str) -> VfUse | None:
        try:
            data = files.read(self._path(vf), _MAX_FILE, private=True)
            use = documents.load(VfUse, data, _MAX_FILE, _SCHEMA)
        except FileNotFoundError:
            return None
        except codec.SchemaError as error:
            return VfUse(vf, "", "?", reason=f"its record is damaged: {error}")
        except OSError as error:
            raise self._unusable(error) from None
        return dataclasses.replace(use, vf=vf)

    def _path(self, vf: str) -> pathlib.Path:
        return self._directory / f"{pci.PciAddress.parse(vf)}{_SUFFIX}"

    def _unusable(self, error: OSError) -> RecordsUnusable:
        return RecordsUnusable(self._directory, exceptions.plain(error))
