# SPDX-License-Identifier: Apache-2.0

"""Virtual compute hosts with SR-IOV cards, realtime or not.

vm = RtVm(Paths.from_environment())
vm.start()
vm.wait_ready(print)
print(vm.run(["uname", "-a"]).text)
vm.stop()
"""

from tests.testbed.rtvm.machine import Cable
from tests.testbed.rtvm.machine import Machine
from tests.testbed.rtvm.results import Job
from tests.testbed.rtvm.results import Result
from tests.testbed.rtvm.vm import RtVm

__all__ = ["Cable", "Job", "Machine", "Result", "RtVm"]
