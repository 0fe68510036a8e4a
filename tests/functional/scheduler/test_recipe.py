# SPDX-License-Identifier: Apache-2.0

"""The recipe of an extra spec with a weigher, followed in a scratch copy."""

import pathlib
import shutil
import tempfile
import unittest

from tests.unit.documented_host import ROOT
from tests.unit.test_recipes import Scratch

GRAMMAR = """\
    "prefer_nic": Key(
        "prefer_nic",
        "any, solarflare, intel, or a PCI vendor[:device] id",
        "Hosts with such a NIC come before others.",
        _parse_nic,
        "no NIC is preferred",
        (),
        "0.0.2",
    ),
"""

WEIGHER = '''

class PreferredNicWeigher(weights.BaseHostWeigher):
    """Prefer hosts with the NIC that a flavor prefers."""

    minval = 0.0
    maxval = 1.0

    def weight_multiplier(self, host_state):
        """Return how much the weigher counts."""
        conf = nova.conf.CONF[options.GROUP]
        return utils.get_weight_multiplier(
            host_state,
            "preferred_nic_weight_multiplier",
            conf.preferred_nic_weight_multiplier,
        )

    def weigh_objects(self, weighed_obj_list, weight_properties):
        """Return a weight for each host."""
        hosts = [each.obj for each in weighed_obj_list]
        specs = request_spec.extra_specs(weight_properties)
        nic = requests.parse(specs).prefer_nic
        if nic is None:
            return [0.0] * len(hosts)
        own = worker.of_this_process()
        own.start()
        preferred = requests.Request(nic=nic)
        found = {id(h) for h in own.verdicts.passing(preferred, hosts)}
        return [1.0 if id(host) in found else 0.0 for host in hosts]

    def _weigh_object(self, obj, weight_properties):
        raise NotImplementedError
'''

OPTION = """\
    cfg.FloatOpt(
        "preferred_nic_weight_multiplier",
        default=1.0,
        help="How strongly hosts with the preferred NIC are preferred.",
    ),
    cfg.FloatOpt(
        "realtime_host_weight_multiplier",
"""

TEST = """\
from nova.scheduler import weights as nova_weights

from sriov_rt.nova import weights
from tests.functional.scheduler import test_filter


class PreferredTest(test_filter.HandlerTest):
    def _weights(self, specs):
        found = nova_weights.HostWeightHandler().get_weighed_objects(
            [weights.PreferredNicWeigher()], self.states, self._spec(specs)
        )
        return {each.obj.host: each.weight for each in found}

    def test_hosts_with_the_nic_come_first(self):
        found = self._weights({"sriov_rt:prefer_nic": "intel"})
        # No facts of it are known.
        self.assertEqual(0.0, found.pop("dumb-1"))
        self.assertEqual({1.0}, set(found.values()))

    def test_others_are_placed_as_usual(self):
        self.assertEqual({0.0}, set(self._weights({}).values()))

    def test_no_host_is_refused(self):
        passing = self._pass(self._spec({"sriov_rt:prefer_nic": "any"}))
        self.assertIn("rt-1", passing)
"""


class WeigherRecipeTest(unittest.TestCase):
    def test_a_preference_is_a_row_a_field_and_a_weigher(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        scratch = Scratch(pathlib.Path(place.name))
        functional = "tests/functional"
        shutil.copytree(
            ROOT / functional / "scheduler",
            scratch.directory / functional / "scheduler",
        )
        shutil.copy(
            ROOT / functional / "__init__.py", scratch.directory / functional
        )
        key = '    "max_latency_us": Key('
        scratch.change("sriov_rt/request/grammar.py", key, GRAMMAR + key)
        field = "    max_latency_us: int | None = None\n"
        scratch.change(
            "sriov_rt/request/words.py",
            field,
            f"{field}    prefer_nic: Nic | None = None\n",
        )
        scratch.change(
            "sriov_rt/scheduler/options.py",
            '    cfg.FloatOpt(\n        "realtime_host_weight_multiplier",\n',
            OPTION,
        )
        path = scratch.directory / "sriov_rt/nova/weights.py"
        path.write_text(path.read_text() + WEIGHER)
        example = "tests/unit/request/test_every_key.py"
        scratch.change(
            example,
            "WEIGHED = frozenset[str]()",
            'WEIGHED = frozenset({"prefer_nic"})',
        )
        scratch.change(
            example,
            '    "max_latency_us": "1",\n',
            '    "max_latency_us": "1",\n    "prefer_nic": "intel",\n',
        )
        scratch.write(f"{functional}/scheduler/test_preferred.py", TEST)
        modules = (
            "tests.functional.scheduler.test_preferred",
            "tests.unit.request.test_every_key",
            "tests.unit.request.test_grammar",
        )
        self.assertEqual("", scratch.test(*modules))
        # A weigher that prefers the wrong hosts.
        scratch.change(
            "sriov_rt/nova/weights.py",
            "1.0 if id(host) in found else 0.0",
            "0.0 if id(host) in found else 1.0",
        )
        self.assertIn("come_first", scratch.test(modules[0]))
