# SPDX-License-Identifier: Apache-2.0

"""Counts of the operations on ports since the boot.

Each is the size of a file: a byte is appended for each operation, which the
kernel does as a whole (O_APPEND), so that processes need no lock for it and a
crash leaves nothing half done.
"""

import itertools
import os
import re
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root

#: Counts of operations on ports.
DIRECTORY = "run/sriov-rt/counts"

#: The most files that are looked at: three operations, and some dozen errors.
MAX_COUNTS = 256

_NAME = re.compile(r"([a-z]{1,16})\.([A-Za-z]{1,64})")

#: The errors that plugs and unplugs raise, of the rooms kernel, nic and vif.
ERRORS = tuple(
    """
    AlreadyPlugged AnnouncingNotPermitted BadName BadState BudgetExceeded Busy
    DriverMissing FiltersRemain FunctionNotReset InterfaceLeft Kept LinkError
    LinkNeeded LinkRefused Locked MacInUse NameInvalid NameTaken NicError
    NoParent NoRoom NoSuchDevice NoSuchLink NoSuchNamespace NotAPf NotAVf
    NotAllowed NotForgotten NotKept NotLost NotOurs NotPermitted NotReady
    NotRecorded NotRestorable NotVerified OutOfRange ParentIsPort ParentTaken
    ProcessUnseen Quarantined ReadOnly RecordDamaged RecordsBroken RecordsFull
    RecordsNotKept RefusedByDriver RefusedByNic SeveralRefused SpreadNeeded
    TooManyVfs TrustNeeded TryAgain Unsupported UnsupportedByNic VerifyFailed
    VfBusy VfInUse VfsInUse VfsNotMade VifError
    """.split()  # noqa: SIM905
)

#: An operation, such as ``plug``; and ``ok``, or the name of its error.
Operation = tuple[str, str]

#: Each operation with each result that is known before it comes.
KNOWN: tuple[Operation, ...] = (
    *itertools.product(("plug", "unplug"), ("ok", *ERRORS)),
    *itertools.product(
        ("recover",), ("undone", "finished", "failed", "released")
    ),
)


def observe(root: Root) -> Mapping[Operation, int] | Unknown:
    """Return how often each operation ended how; none before the first."""
    names = root.list_dir(DIRECTORY)
    if isinstance(names, Unknown):
        return {} if root.exists(DIRECTORY) is False else names
    found = {}
    for name in itertools.islice(names, MAX_COUNTS):
        parts = _NAME.fullmatch(name)
        file = parts and root.open_file(f"{DIRECTORY}/{name}")
        if not parts or not file or isinstance(file, Unknown):
            continue
        with file:
            size = os.fstat(file.fileno()).st_size
        found[parts[1], parts[2]] = size
    return found
