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
