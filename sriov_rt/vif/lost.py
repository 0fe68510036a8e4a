# SPDX-License-Identifier: Apache-2.0

"""Ports whose interface went with its parent, and is to be plugged again.

Each has a file beside the records: its last record, written before that is
given up. So a port is plugged again however often that is interrupted; its
unplug ends it.
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

#: Beside the records.
DIRECTORY = "lost"


class LostPorts:
    """The files of ports that are to be plugged again.

    :param beside: the records that they are beside.
    """

    def __init__(self, beside: records.Records) -> None:
        self._parent = beside.directory.parent
        self.directory = self._parent / DIRECTORY

    def put(self, record: Record) -> None:
        """Note a port, by its record from before.

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
        """Return the record of a port from before; None if it is not lost.

        A file that is none, or of another boot, is no port.
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
        """Return those of all ports, sorted by them.

        :raises RecordsBroken: if that cannot be told.
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

        :raises RecordsBroken: if that cannot be written.
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
