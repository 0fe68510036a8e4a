# SPDX-License-Identifier: Apache-2.0

"""Counts of the operations on ports since the boot.

Each count is the size of a file: a byte is appended for each operation. The
kernel appends atomically (O_APPEND), so processes need no lock, and a crash
leaves nothing half done.
"""

import itertools
import os
import re
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root

#: Directory of the counts.
DIRECTORY = "run/sriov-rt/counts"

#: The most files that are read: three operations, and some dozen errors.
MAX_COUNTS = 256

_NAME = re.compile(r"([a-z]{1,16})\.([A-Za-z]{1,64})")

#: Errors of plugs and unplugs, in the packages kernel, nic and vif.
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

#: An operation, such as ``plug``; and its result, ``ok`` or an error's name.
Operation = tuple[str, str]

#: Each operation with each result that is known in advance.
KNOWN: tuple[Operation, ...] = (
    *itertools.product(("plug", "unplug"), ("ok", *ERRORS)),
    *itertools.product(
        ("recover",), ("undone", "finished", "failed", "released")
    ),
)


def observe(root: Root) -> Mapping[Operation, int] | Unknown:
    """Return the count of each operation and result; empty at first."""
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
