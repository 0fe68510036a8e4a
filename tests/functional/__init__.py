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

"""Tests beside real neighbours: this host, Nova in one process, Placement.

They run on native threads, as Nova 34 does where it is deployed: its test
base would otherwise make every thread of the process one of eventlet's.
"""

import os

os.environ.setdefault("OS_NOVA_DISABLE_EVENTLET_PATCHING", "true")

# Before anything that would import eventlet because it is installed.
from nova import monkey_patch

monkey_patch.patch()
