# SPDX-License-Identifier: Apache-2.0

"""Privileged part of the os-vif plugin: plug, check, offer, unplug, recover.

The daemon that runs it is root with few capabilities. CAP_NET_ADMIN does all
the work on a port in the host's own namespace:

- links, tc and a PF's settings of its VFs go through netlink, which requires
  CAP_NET_ADMIN (rtnetlink_rcv_msg in net/core/rtnetlink.c);
- files in sysfs (a VF's driver, its reset) and in the records' directory
  belong to root, which needs no capability for its own files. With ``user``
  set to another, CAP_DAC_OVERRIDE would be needed.

A port may be in another namespace than the host's, and one that is not where
it was plugged is looked for in all of them. That takes CAP_SYS_ADMIN to enter
one (netns_install in net/core/net_namespace.c) and CAP_SYS_PTRACE to find one
by its processes (proc_ns_get_link in fs/proc/namespaces.c). CAP_MKNOD is for
the device node of a macvtap if /dev is not devtmpfs, as in nova-compute's
container. Ports of os-vif have no addresses, so none is announced, and
CAP_NET_RAW is not needed.

The caller has no privileges, and may act for others that have fewer still: so
requests are checked on this side of the socket. A port gets a parent from
``[vif] parents``, but no namespace, addresses or routes: through os-vif an
interface stays on the host, and its guest configures it. Any port may be
unplugged: Nova decides that for its own ports and for those it forgot.
"""

import dataclasses
import functools
import json
import logging
import pathlib
import threading
import time
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg
from oslo_privsep import capabilities
from oslo_privsep import daemon
from oslo_privsep import priv_context

from sriov_rt import codec
from sriov_rt import config
from sriov_rt import deadline
from sriov_rt import exceptions
from sriov_rt.host.root import CONFIG
from sriov_rt.vif import errors
from sriov_rt.vif import validation
from sriov_rt.vif.host_offer import Offer
from sriov_rt.vif.model import Plug

LOG = logging.getLogger(__name__)

#: The group of the plugin's options (os_vif.plugin.PluginBase.load).
GROUP = "os_vif_sriov_rt"

OPTS = [
    cfg.Opt(
        "config_file",
        type=config.Checked(config.absolute_path),
        default=f"/{CONFIG}",
        help="""
The file with this host's ``[vif]`` section: parents, records, limits.

The command line and the agents read the same one, so that all of them work
with the same records and pool of parents. Without the file, or without
parents in it, no port of ours can be plugged on this host; nothing else
depends on it.
""",
    ),
    cfg.FloatOpt(
        "answer_timeout",
        default=300.0,
        min=1.0,
        max=3600.0,
        help="""
Seconds to wait for the privileged daemon, its start included.

A NIC that resets VFs slowly, and ``[vif] lock_timeout``, take their part of
it: keep it longer than both. What is not answered in time is refused on this
host, so that Nova tries another, and a plug that the daemon has not begun by
then is not made.
""",
    ),
]

vif_plug = priv_context.PrivContext(
    "sriov_rt",
    cfg_section="sriov_rt_privileged",
    pypath=f"{__name__}.vif_plug",
    capabilities=[
        capabilities.CAP_MKNOD,
        capabilities.CAP_NET_ADMIN,
        capabilities.CAP_SYS_ADMIN,
        capabilities.CAP_SYS_PTRACE,
    ],
)

#: More waiting calls would fill the daemon's socket, on which oslo.privsep
#: waits while it holds the lock of all its callers.
_calls = deadline.Calls("a call of sriov-rt's privileged daemon", 32)

_restart_lock = threading.Lock()

#: Answer of the privsep daemon: (value, None) or (None, error).
Answer = tuple[Any, dict[str, str] | None]


class HostRefused(exceptions.SriovRtError):
    """The host could not do it; the text is that of its error.

    :param name: name of the error's class, such as ``NoParent``.
    :param sentence: text of the error.
    """

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(name, sentence)
        self.name = name
        self.sentence = sentence

    @property
    def is_configuration(self) -> bool:
        """Whether an option of sriov-rt.conf has an invalid value."""
        return self.name == config.OptionRejected.__name__

    def __str__(self) -> str:
        return self.sentence


def is_configured() -> bool:
    """Return whether this host has a configuration file of ours.

    Only root may be able to read the file, or even its directory.
    """
    try:
        pathlib.Path(_config_file()).stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def plug(request: Plug) -> Mapping[str, Any]:
    """Plug a port and return the result: the fields of a Plugged.

    :raises HostRefused: if it cannot be plugged.
    """
    found: Mapping[str, Any] = _value(_plug, codec.to_plain(request))
    return found


def check(request: Plug) -> None:
    """Check that a port can be plugged or already is; make nothing.

    :raises HostRefused: if it cannot be plugged now.
    """
    _value(_check, codec.to_plain(request))


def networks() -> Collection[str] | None:
    """Return the physical networks that this host has parents on.

    They are read without privileges: most hosts have none, and need none.

    :returns: None if they cannot be read without privileges.
    """
    from sriov_rt.vif import options
    from sriov_rt.vif.settings import Pools

    if not is_configured():
        return ()
    try:
        conf = config.load([_config_file()])
        options.register(conf)
        return Pools.parse(conf[options.GROUP].parents).networks
    except (cfg.Error, exceptions.SriovRtError, OSError):
        return None


def offer(virt_type: str) -> Offer:
    """Return what this host offers to Neutron now.

    :param virt_type: ``[libvirt] virt_type`` of its nova-compute.
    :raises HostRefused: if the offer cannot be determined.
    """
    return Offer.from_configurations(_value(_offer, virt_type))


def unplug(port: str) -> bool:
    """Unplug a port; False if there was nothing to unplug.

    :raises HostRefused: if the port cannot be removed.
    """
    return bool(_value(_unplug, port))


def recover() -> Mapping[str, Any]:
    """Finish or undo what was interrupted: the fields of a Recovered.

    :raises HostRefused: if the records cannot be read.
    """
    found: Mapping[str, Any] = _value(_recover)
    return found


def _value(function: Callable[..., Answer], *arguments: Any) -> Any:
    """Return what a function of the daemon returns.

    :raises HostRefused: if it fails, or does not answer in time.
    """
    limit_s = _conf().answer_timeout
    until = time.monotonic() + limit_s
    _stop_if_reset()
    try:
        value, error = _calls.result(
            lambda: function(*arguments, until), limit_s
        )
    except deadline.Expired as late:
        raise HostRefused(
            "DaemonSilent",
            "sriov-rt's privileged daemon has not answered within "
            f"{limit_s:g} s; free what it waits for (nova-compute's log), or "
            f"'pkill -KILL -f {vif_plug.pypath}': nova-compute starts another",
        ) from late
    except (daemon.FailedToDropPrivileges, OSError) as failure:
        raise HostRefused(
            "DaemonMissing",
            "sriov-rt's privileged daemon gave no answer "
            f"({exceptions.plain(failure)}); see helper_command in "
            f"[{vif_plug.cfg_section}] and nova-compute's log",
        ) from failure
    if error is not None:
        raise HostRefused(error["name"], error["sentence"])
    return value


def _stop_if_reset() -> None:
    """Stop the client of a daemon that was killed, so that a call starts one.

    oslo.privsep does that itself once its reader has seen the stream end. A
    daemon that dies with requests unread resets the connection instead: the
    reader dies of ConnectionResetError and leaves the channel as running
    (ClientChannel._reader_main in oslo_privsep/comm.py, 3.12.0), and every
    later call fails.
    """
    with _restart_lock:
        channel = vif_plug.channel
        if channel is None or not channel.running:
            return
        if not channel.reader_thread.is_alive():
            LOG.warning("the privileged daemon was killed; starting another")
            vif_plug.stop()


@functools.cache
def _plugger(config_file: str) -> Any:
    # Imported here, as only the daemon needs it: loading the plugin loads this
    # module.
    from sriov_rt.vif import host
    from sriov_rt.vif import plugger

    conf = config.load([config_file])
    host.check(conf, "nova-compute")
    return plugger.of(conf)


def _host_plugger() -> Any:
    """Return the plugger that root's configuration describes.

    The caller cannot choose the file: it has no privileges.
    """
    return _plugger(_config_file())


def _config_file() -> str:
    file: str = _conf().config_file
    return file


def _conf() -> Any:
    cfg.CONF.register_opts(OPTS, group=GROUP)
    return cfg.CONF[GROUP]


def _answered(action: Callable[[], Any]) -> Answer:
    # The client would rebuild an exception from its arguments alone, but ours
    # take keywords.
    try:
        return action(), None
    except exceptions.SriovRtError as error:
        return None, {"name": type(error).__name__, "sentence": str(error)}
    except cfg.Error as error:
        return None, {"name": type(error).__name__, "sentence": str(error)}


@vif_plug.entrypoint
def _plug(requested: Mapping[str, Any], until: float) -> Answer:
    return _answered(
        lambda: dataclasses.asdict(
            _host_plugger().plug(_want(requested, until))
        )
    )


@vif_plug.entrypoint
def _check(requested: Mapping[str, Any], until: float) -> Answer:
    return _answered(lambda: _host_plugger().check(_want(requested, until)))


@vif_plug.entrypoint
def _offer(virt_type: str, _until: float) -> Answer:
    return _answered(
        lambda: _host_plugger().offer(virt_type).to_configurations()
    )


@vif_plug.entrypoint
def _unplug(port: str, _until: float) -> Answer:
    return _answered(lambda: _host_plugger().unplug(validation.port(port)))


@vif_plug.entrypoint
def _recover(_until: float) -> Answer:
    return _answered(lambda: dataclasses.asdict(_host_plugger().recover()))


def _want(requested: Mapping[str, Any], until: float) -> Plug:
    """Return the requested port, if an unprivileged caller may have it.

    :raises SchemaError: if it is not a port.
    :raises ParseError: for a value that no port can have.
    :param until: when the caller gives up, by time.monotonic().
    :raises NotAllowed: for what would reach beyond the pools' parents.
    :raises HostRefused: if the caller no longer waits for it.
    """
    if time.monotonic() > until:
        # A stopped daemon finds such a request when it continues.
        sentence = f"port={requested.get('port')}: the request is too old"
        LOG.warning("%s", sentence)
        raise HostRefused("TooLate", sentence)
    # oslo.privsep turns lists into tuples.
    request = codec.from_plain(Plug, json.loads(json.dumps(requested)))
    for what, value in (
        ("a namespace", request.namespace),
        ("addresses", request.addresses),
        ("routes", request.routes),
    ):
        if value:
            raise errors.NotAllowed(what, port=request.port)
    if request.physical_network is None:
        # A named parent has to be on its network (see vif.plan).
        what = f"parent {request.parent}"
        raise errors.NotAllowed(
            what, port=request.port, detail="without a physical network"
        )
    return validation.checked(request)
