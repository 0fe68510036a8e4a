# SPDX-License-Identifier: Apache-2.0

"""Unit tests.

They write trees of thousands of small files, like sysfs. On a disk that takes
several times as long as all the rest, so the trees are in memory. Examples of
properties have no deadline, which a busy machine would miss.
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
