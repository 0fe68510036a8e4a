# SPDX-License-Identifier: Apache-2.0

"""Tests beside real neighbours: this host, Nova in one process, Placement.

They run on native threads, as Nova 34 does where it is deployed: its test
base would otherwise make every thread of the process one of eventlet's.
"""

import os

os.environ.setdefault("OS_NOVA_DISABLE_EVENTLET_PATCHING", "true")

# Before anything that would import eventlet because it is installed.
from nova import monkey_patch

monkey_patch.patch()
