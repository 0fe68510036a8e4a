# SPDX-License-Identifier: Apache-2.0

"""sriov-rt vif, killed: nothing is left after the next start."""

import json
import pathlib
import random
from typing import Any
from typing import ClassVar

from tests import periodic
from tests.vm import base
from tests.vm import network
from tests.vm import test_vif_kinds

_KILLER = pathlib.Path(__file__).with_name("killer.py")

#: Each run has some of the deaths, and in this many turns each has its own;
#: a periodic run has all of them.
_TURNS = 4

#: Seconds for all the deaths of one kind.
_SECONDS = 600.0


class KillTestCase(test_vif_kinds.PortTestCase):
    """A test of what dies."""

    def die(self, what: str, kind: str, *more: str) -> dict[str, Any]:
        """Return what killer.py found: no problem."""
        result = self.vm.run(
            (
                *(base.product().program("python"), "-I", str(_KILLER)),
                *(what, kind, "--pf", network.PF, "--network", "physnet1"),
                *("--namespace", test_vif_kinds.NAMESPACE, *more),
            ),
            timeout=_SECONDS,
            check=False,
        )
        self.assertEqual(result.status, 0, result.complaint)
        found: dict[str, Any] = json.loads(result.text.splitlines()[-1])
        self.assertEqual(found["problems"], {}, result.complaint)
        return found


class KillTest(KillTestCase):
    """A plug or an unplug dies, and the kernel is as it was."""

    NEIGHBOURS: ClassVar[dict[str, tuple[int, str, int]]] = {}

    def _die_on_the_way(self, what: str, kind: str, calls: int) -> None:
        """Die at each call, or in one of a few turns at some of them.

        :param calls: that it makes at the least.
        """
        first = 0 if periodic.wanted() else random.randrange(_TURNS)
        every = 1 if periodic.wanted() else _TURNS
        with self.subTest(kind, first=first, every=every):
            found = self.die(
                *(what, kind, "--first", str(first), "--every", str(every))
            )
            self.assertGreater(found["calls"], calls)
            self.assertEqual(found["end"], 0)

    def test_plug_that_dies_anywhere_is_undone(self) -> None:
        """An ipvlan and a whole VF, at each call and write of a record.

        tests/functional/vif has a macvlan die at each, so the gate has the
        VF alone.
        """
        for kind in ("ipvlan", "vf") if periodic.wanted() else ("vf",):
            self._die_on_the_way("plug", kind, 10)

    def test_unplug_that_dies_anywhere_is_finished(self) -> None:
        """The VF is home and clean."""
        self._die_on_the_way("unplug", "vf", 6)

    @periodic.periodic
    def test_twenty_plugs_killed_at_random_leave_nothing(self) -> None:
        """By SIGKILL, in the middle of whatever they do."""
        found = self.die("random", "ipvlan", "--times", "20")
        self.assertGreater(found["died"], 0)
