# SPDX-License-Identifier: Apache-2.0

import contextlib
import io
import json
from unittest import mock

from sriov_rt.cmd import main
from sriov_rt.cmd import vif_restore
from sriov_rt.guest import running
from sriov_rt.vif import plugger as pluggers
from sriov_rt.vif.errors import VifError
from sriov_rt.vif.model import Kind
from tests.unit.cmd import interrupts
from tests.unit.host import trees
from tests.unit.vif import fakes
from tests.unit.vif.fakes import PORT
from tests.unit.vif.fakes import asked
from tests.unit.vif.test_restore import VF
from tests.unit.vif.test_restore import ReloadTest

OWNER = "f4e3d2c1-1111-4222-8333-444455556666"


class CommandTest(ReloadTest):
    def run_command(self, *words, code=0, **rules):
        plugger = self.another(**rules)
        printed = io.StringIO()
        with (
            mock.patch.object(pluggers, "configured", return_value=plugger),
            contextlib.redirect_stdout(printed),
        ):
            self.assertEqual(code, main.main(["vif", "restore", *words]))
        return printed.getvalue()

    def test_a_run(self):
        self.plugger.plug(asked(**VF))
        self.assertIn("nothing to do", self.run_command())
        self.reload()
        printed = self.run_command("--dry-run")
        self.assertEqual(f"lost: {PORT}: eth1\n", printed)
        self.assertEqual([], self.lost())
        self.assertEqual(f"restored: {PORT}\n", self.run_command())
        self.assertIn("nothing to do", self.run_command())

    def test_as_json(self):
        self.plugger.plug(asked(**VF))
        for _ in range(3):
            self.host.vanish(self.host.vf(0))
        plain = json.loads(self.run_command("--json", code=1))
        self.assertEqual({"restored", "left", "guests", "ended"}, set(plain))
        self.assertEqual(PORT, plain["left"][0][0])

    def test_ctrl_c_at_the_first_of_two(self):
        """That one is plugged again, and the other has its turn next."""
        interrupts.accept(self)
        self.plugger.plug(asked(**VF))
        second = {**VF, "mac": "02:00:5e:10:00:08", "name": "eth2"}
        self.plugger.plug(asked(**second, port=fakes.OTHER))
        self.reload()
        plug = pluggers.Plugger.plug

        def plugged(*args):
            interrupts.send()
            return plug(*args)

        with mock.patch.object(pluggers.Plugger, "plug", plugged):
            plain = json.loads(self.run_command("--json", code=130))
        self.assertEqual([PORT], plain["restored"])
        ((port, why),) = plain["left"]
        self.assertEqual(fakes.OTHER, port)
        self.assertIn("interrupted before its turn; run this again", why)
        printed = self.run_command()
        self.assertEqual(f"restored: {fakes.OTHER}\n", printed)

    def test_a_guest_needs_a_reboot(self):
        """No later run mends that, so its exit code is another one."""
        self.plugger.plug(asked(Kind.MACVTAP, namespace=None, name="tap0"))
        self.reload()
        self.assertIn("hard-reboot", self.run_command(code=3))

    def test_turned_off(self):
        self.plugger.plug(asked(**VF))
        self.reload()
        for words in ((), ("--dry-run",)):
            printed = self.run_command(*words, restore=False)
            self.assertEqual("nothing to do: [vif] restore is off\n", printed)
        self.assertIsNone(self.host.named("eth1", "box"))


class ContainerTest(trees.TreeTest):
    def find(self, owner=OWNER):
        guest = running.Guest(OWNER, 4711, mock.Mock())
        with (
            mock.patch.object(running, "guests", return_value=(guest,)),
            mock.patch.object(vif_restore, "Root", lambda _: self.tree.root),
        ):
            return vif_restore.container(owner)

    def test_its_first_process(self):
        self.tree.write("proc/4711/task/4711/children", "4712 4720 \n")
        self.assertEqual("pid:4712", self.find())
        self.assertIsNone(self.find(fakes.OTHER))

    def test_one_that_has_none_yet(self):
        """Its port must not be made on the host meanwhile."""
        for _ in range(2):
            with self.assertRaisesRegex(VifError, "run this again"):
                self.find()
            self.tree.write("proc/4711/task/4711/children", "")

    def test_what_cannot_be_read_is_no_container_that_has_ended(self):
        self.tree.write(f"{running.CONTAINERS}/x.xml", "")
        with (
            mock.patch.object(vif_restore, "Root", lambda _: self.tree.root),
            self.assertRaisesRegex(VifError, "x.xml: empty"),
        ):
            vif_restore.container(OWNER)
