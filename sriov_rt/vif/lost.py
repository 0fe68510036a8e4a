# SPDX-License-Identifier: Apache-2.0

"""Ports that lost their interface with its parent, to be plugged again.

Each has a file beside the records: its last record, written before that one is
removed. So an interrupted restore is tried again; the unplug of the port
removes the file.
"""

import logging
import pathlib

from sriov_rt import files
from sriov_rt.exceptions import SriovRtError
from sriov_rt.parse.errors import ParseError
from sriov_rt.vif import errors
from sriov_rt.vif import log
from sriov_rt.vif import records
from sriov_rt.vif.model import Record

LOG = logging.getLogger(__name__)

#: Directory of the files, beside that of the records.
DIRECTORY = "lost"


class LostPorts:
    """Files of ports that are to be plugged again.

    :param beside: records that the files are beside.
    """

    def __init__(self, beside: records.Records) -> None:
        self._parent = beside.directory.parent
        self.directory = self._parent / DIRECTORY

    def put(self, record: Record) -> None:
        """Note a lost port, with the record that it had.

        :raises RecordsFull: if there is no space.
        :raises RecordsBroken: if it cannot be written otherwise.
        """
        try:
            files.make_directory(self._parent, 0o700)
            files.make_directory(self.directory, 0o700)
            files.replace(self._path(record.port), records.form(record))
        except OSError as error:
            raise self._broken(error, record.port) from error

    def get(self, port: str) -> Record | None:
        """Return the record that a lost port had; None if it is not lost.

        A file that is no record, or that is from another boot, is ignored.
        """
        try:
            path, limit = self._path(port), records.MAX_FILE
            found = records.parse(files.read(path, limit, private=True))
            if found.port != port:
                raise ParseError("port", found.port, "not of this file")
        except FileNotFoundError:
            return None
        except (OSError, SriovRtError) as error:
            LOG.error("%s: not plugged again: %s", log.about(port), error)
            return None
        return found if found.boot == records.boot_id() else None

    def all(self) -> tuple[Record, ...]:
        """Return the records of all lost ports, sorted by port.

        :raises RecordsBroken: if they cannot be read.
        """
        try:
            names = sorted(each.name for each in self.directory.iterdir())
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise self._broken(error) from error
        found = (self.get(each) for each in names if not each.startswith("."))
        return tuple(each for each in found if each is not None)

    def end(self, port: str) -> bool:
        """Forget a port; return whether it was lost.

        :raises RecordsBroken: if its file cannot be removed.
        """
        try:
            self._path(port).unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._broken(error, port) from error
        return True

    def _broken(
        self, error: OSError, port: str | None = None
    ) -> errors.VifError:
        return records.broken(self.directory, error, port)

    def _path(self, port: str) -> pathlib.Path:
        return self.directory / port
