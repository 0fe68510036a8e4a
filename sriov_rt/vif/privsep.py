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


"""What of the os-vif plugin runs with privileges: plug, unplug, recover.

The daemon that runs it is root with CAP_NET_ADMIN and no other capability.
That serves for a port in the host's own namespace:

- links, tc and what a PF sets of its VFs are netlink's, and netlink asks for
  CAP_NET_ADMIN (rtnetlink_rcv_msg in net/core/rtnetlink.c);
- what is written in sysfs (a VF's driver, its reset) and in the journal's
  directory belongs to root, and root needs no capability for files of its
  own. With ``user`` set to another, CAP_DAC_OVERRIDE would be needed.

Other namespaces ask for more: entering one for CAP_SYS_ADMIN (netns_install
in net/core/net_namespace.c), finding it by a process for CAP_SYS_PTRACE
(proc_ns_get_link in fs/proc/namespaces.c). See the option ``capabilities``.
"""

import dataclasses
import functools
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg
from oslo_privsep import capabilities
from oslo_privsep import priv_context

from sriov_rt import exceptions
from sriov_rt.vif.words import Kind
from sriov_rt.vif.words import Limits
from sriov_rt.vif.words import Plug

#: The group of the plugin's options (os_vif.plugin.PluginBase.load).
GROUP = "os_vif_sriov_rt"

OPTS = [
    cfg.StrOpt(
        "config_file",
        default="/etc/sriov_rt/sriov-rt.conf",
        help="""
The file with this host's ``[vif]`` section: parents, journal, limits.

The command line and the agents read the same one, so that all of them work
with one journal and one pool of parents. Without the file, or without
parents in it, no port of ours can be plugged on this host; nothing else
depends on it.
""",
    ),
]

vif_plug = priv_context.PrivContext(
    "sriov_rt",
    cfg_section="sriov_rt_privileged",
    pypath=f"{__name__}.vif_plug",
    capabilities=[capabilities.CAP_NET_ADMIN],
)

#: What goes back through the privsep daemon: (value, None) or (None, error).
Answer = tuple[Any, dict[str, str] | None]


class HostRefused(exceptions.SriovRtError):
    """The host could not do it; the sentence is that of its error.

    :param name: of the error's class, such as ``NoParent``.
    :param sentence: what it says.
    """

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(name, sentence)
        self.name = name
        self.sentence = sentence

    def __str__(self) -> str:
        return self.sentence


def plug(want: Plug) -> Mapping[str, Any]:
    """Plug a port and return what it became: the fields of a Plugged.

    :raises HostRefused: if it cannot be plugged.
    """
    found: Mapping[str, Any] = _value(_plug(dataclasses.asdict(want)))
    return found


def unplug(port: str) -> bool:
    """Unplug a port; False if there was nothing to unplug.

    :raises HostRefused: if what is there cannot be taken away.
    """
    return bool(_value(_unplug(port)))


def recover() -> tuple[str, ...]:
    """Finish or undo what was interrupted, and tell of each port a line.

    :raises HostRefused: if it cannot be finished or undone.
    """
    return tuple(_value(_recover()))


def _value(answer: Answer) -> Any:
    value, error = answer
    if error is not None:
        raise HostRefused(error["name"], error["sentence"])
    return value


@functools.cache
def _plugger(config_file: str) -> Any:
    # Only the daemon needs them: whoever loads the plugin loads this module.
    from sriov_rt.vif import host
    from sriov_rt.vif import options

    conf = cfg.ConfigOpts()
    options.register(conf)
    conf([], project="sriov_rt", default_config_files=[config_file])
    return host.plugger(conf)


def _here() -> Any:
    """Return this host's plugger, as the configuration of root has it.

    The file is not one of the caller's choice: who asks has no privileges.
    """
    cfg.CONF.register_opts(OPTS, group=GROUP)
    return _plugger(cfg.CONF[GROUP].config_file)


def _told(action: Callable[[], Any]) -> Answer:
    # An exception would be made anew on the other side from its arguments
    # alone, and ours take keywords.
    try:
        return action(), None
    except exceptions.SriovRtError as error:
        return None, {"name": type(error).__name__, "sentence": str(error)}
    except cfg.Error as error:
        return None, {"name": type(error).__name__, "sentence": str(error)}


@vif_plug.entrypoint
def _plug(asked: Mapping[str, Any]) -> Answer:
    return _told(lambda: dataclasses.asdict(_here().plug(_want(asked))))


@vif_plug.entrypoint
def _unplug(port: str) -> Answer:
    return _told(lambda: _here().unplug(port))


@vif_plug.entrypoint
def _recover() -> Answer:
    return _told(lambda: _lines(_here().recover()))


def _want(asked: Mapping[str, Any]) -> Plug:
    given = dict(asked)
    given["kind"] = Kind(given["kind"])
    given["limits"] = Limits(**given["limits"])
    return Plug(**given)


def _lines(recovered: Any) -> list[str]:
    return [str(each) for each in dataclasses.astuple(recovered)]
