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

"""Tempest's own tests find nothing that sriov-rt changes for others."""

from tests.cloud.base import CloudTestCase
from tests.cloud.base import say
from tests.periodic import periodic
from tests.testbed import tempest_compare
from tests.testbed import tempest_tests


@periodic
class TestOthers(CloudTestCase):
    """The plugin's tests are run beside these, by tempest_run."""

    def test_tempest_finds_the_same_without_sriov_rt(self) -> None:
        log = self.cloud.place.log / "test-tempest-compare.log"
        with log.open("w") as sink:
            without, ours = tempest_compare.run(self.cloud, sink=sink)
        say(f"see {log}\n{tempest_tests.table(without, ours)}")
        self.assertIn("ok", ours.tests.values())
        self.assertEqual([], tempest_tests.different(without, ours))
