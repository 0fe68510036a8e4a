# SPDX-License-Identifier: Apache-2.0

"""Unit tests.

They write trees of thousands of small files, like sysfs. On a disk that takes
several times as long as all the rest, so the trees are in memory. Examples of
properties have no deadline, which a busy machine would miss.
"""

import os
import pathlib
import re
import sys
import tempfile

import hypothesis

_MEMORY = "/dev/shm"

if "TMPDIR" not in os.environ and os.access(_MEMORY, os.W_OK):
    tempfile.tempdir = _MEMORY

hypothesis.settings.register_profile(
    "untimed",
    deadline=None,
    suppress_health_check=(hypothesis.HealthCheck.too_slow,),
)
hypothesis.settings.load_profile("untimed")

#: State of a host on which the unit tests may run, as root.
_STATE = re.compile(r"/(?:etc|run|var/lib|var/log)/sriov-rt")
#: Audit events of changes to files, and which arguments are changed paths.
_CHANGES = {
    "open": (0,),
    "os.mkdir": (0,),
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.rmdir": (0,),
    "os.symlink": (1,),
}


def load_tests(loader, tests, pattern):
    """Let no test change this host's own state.

    unittest calls this when it looks for the unit tests, and not when other
    tests import something of theirs.
    """

    def refuse(event, arguments):
        places = _CHANGES.get(event, ())
        if event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
            return
        for path in (arguments[place] for place in places):
            if not isinstance(path, int) and _STATE.match(os.fsdecode(path)):
                raise AssertionError(
                    f"a unit test changes {path} of this host; give it a "
                    "directory of its own"
                )

    sys.addaudithook(refuse)
    here = pathlib.Path(__file__).parent
    tests.addTests(loader.discover(str(here), pattern or "test*.py"))
    return tests
