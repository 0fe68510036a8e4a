# SPDX-License-Identifier: Apache-2.0

"""Unit tests.

They write trees of thousands of small files, as sysfs has them, which takes a
disk several times as long as all the rest: they are made in memory. No
example of a property has a deadline: a busy machine would miss it.
"""

import os
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
