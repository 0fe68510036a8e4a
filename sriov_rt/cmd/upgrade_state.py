# SPDX-License-Identifier: Apache-2.0

"""State of a host that ``sriov-rt-status`` reads before an upgrade."""

import contextlib
import importlib.metadata
import importlib.util
import pathlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from oslo_config import cfg
from oslo_utils import strutils

from sriov_rt import config
from sriov_rt import exceptions
from sriov_rt import files as bounded
from sriov_rt.agent import options as agent_options
from sriov_rt.cmd import collect
from sriov_rt.cmd import faults
from sriov_rt.cmd import paths
from sriov_rt.cmd import upgrade_checks as checks
from sriov_rt.codec import Unknown
from sriov_rt.codec import known_or
from sriov_rt.devices import settings as devices
from sriov_rt.host import compute_driver_socket
from sriov_rt.host.compute_driver_socket import Driver
from sriov_rt.host.root import Root
from sriov_rt.kubernetes import options as kubernetes_options
from sriov_rt.kubevirt import contract
from sriov_rt.magnum import options as magnum_options
from sriov_rt.neutron import options as neutron_options
from sriov_rt.nic import provision
from sriov_rt.nova import options as nova_options
from sriov_rt.onload import settings as onload_settings
from sriov_rt.pods import cluster
from sriov_rt.pods import manifest
from sriov_rt.scheduler import options as scheduler_options
from sriov_rt.vif import options as vif_options
from sriov_rt.vif import records
from sriov_rt.vif import settings as vif_settings
from sriov_rt.vif import validation
from sriov_rt.vif.model import Record

PACKAGE = "sriov-rt"

#: Configuration files of Neutron's services and magnum-conductor, below the
#: root.
NEUTRON_FILES = (
    "etc/neutron/neutron.conf",
    "etc/neutron/plugins/ml2/ml2_conf.ini",
    "etc/neutron/plugins/ml2/sriov_agent.ini",
)
MAGNUM_FILES = ("etc/magnum/magnum.conf",)

#: Directory of an administrator's units, below the root.
UNITS = "etc/systemd/system"

#: Directory of units in the file names of the Python package.
_SHIPPED_UNITS = "share/sriov-rt/systemd/"

#: Directory of units of a distribution's package, below the root.
_DISTRIBUTED_UNITS = "usr/lib/systemd/system"

#: The longest command line of a process that is read, in bytes.
_MAX_CMDLINE = 4096


#: nova-scheduler's own options (nova/conf/scheduler.py).
_FILTER_GROUP = "filter_scheduler"
_FILTER_OPTS = [
    cfg.ListOpt("enabled_filters"),
    cfg.MultiStrOpt("available_filters", default=[]),
]


def _check_agent(conf: cfg.ConfigOpts, service: str) -> None:
    agent_options.register(conf)
    agent_options.check(conf)
    agent_options.host_name(conf, service)


def _check_devices(conf: cfg.ConfigOpts, service: str) -> None:
    agent_options.register(conf)
    devices.check(conf, service)


def _check_neutron_agent(conf: cfg.ConfigOpts, service: str) -> None:
    neutron_options.register_agent(conf)
    neutron_options.check_agent(conf)


def _check_magnum(conf: cfg.ConfigOpts, service: str) -> None:
    magnum_options.register(conf)
    groups = ((magnum_options.GROUP, magnum_options.MAGNUM_OPTS),)
    config.check(conf, groups, service)


#: Registers and reads the options of a service as its start does.
Check = Callable[[cfg.ConfigOpts, str], object]

#: Services that read sriov-rt.conf, and the checks that each makes.
_OWN: tuple[tuple[str, Check], ...] = (
    ("sriov-rt-agent", _check_agent),
    ("sriov-rt-agent", kubernetes_options.check),
    ("sriov-rt-agent", vif_settings.check),
    ("sriov-rt-agent", onload_settings.check),
    ("sriov-rt-vfs", provision.check),
    (devices.SERVICE, _check_devices),
)
_NOVA: tuple[tuple[str, Check], ...] = (
    ("nova-compute", lambda conf, _: nova_options.check(conf)),
    ("nova-scheduler", lambda conf, _: scheduler_options.check(conf)),
)
_NEUTRON: tuple[tuple[str, Check], ...] = (
    ("neutron-server", lambda conf, _: neutron_options.register_ml2(conf)),
    ("sriov-rt-neutron-agent", _check_neutron_agent),
    (
        "neutron-sriov-nic-agent",
        lambda conf, _: neutron_options.register_extension(conf),
    ),
)
_MAGNUM: tuple[tuple[str, Check], ...] = (("magnum-conductor", _check_magnum),)


class Host:
    """State of the host that upgrade checks read.

    :param own: named files of sriov-rt.conf; None for those that the services
        find.
    """

    def __init__(self, own: Sequence[str] | None) -> None:
        found = config.default_files() if own is None else own
        self._own = tuple(pathlib.Path(each) for each in found)
        agent = self._agent()
        self.root = Root(agent.agent.root)
        try:
            self.name: str = agent_options.host_name(agent, "sriov-rt-agent")
        except config.OptionRejected:
            # It is reported as a problem.
            self.name = agent.host
        self._nova = tuple(self._expanded(agent.agent.nova_config_files))

    def problems(self) -> Iterator[checks.ConfigurationProblem]:
        """Yield configurations with which services would not start."""
        yield from _problems(self._own, _OWN)
        yield from _problems(self._nova, _NOVA)
        yield from _problems(self._expanded(NEUTRON_FILES), _NEUTRON)
        yield from _problems(self._expanded(MAGNUM_FILES), _MAGNUM)

    def filters(self) -> checks.Filters | Unknown:
        """Return nova-scheduler's filters."""
        conf = _loaded(self._nova)
        if isinstance(conf, Unknown):
            return conf
        conf.register_opts(_FILTER_OPTS, group=_FILTER_GROUP)
        section = conf[_FILTER_GROUP]
        enabled = section.enabled_filters
        return checks.Filters(
            None if enabled is None else tuple(enabled),
            tuple(section.available_filters),
        )

    def dhcp(self) -> checks.Dhcp | Unknown:
        """Return the DHCP sources for ports that OVN does not bind."""
        neutron = _loaded(tuple(self._expanded(NEUTRON_FILES)))
        nova = _loaded(self._nova)
        if isinstance(neutron, Unknown):
            return neutron
        if isinstance(nova, Unknown):
            return nova
        neutron.register_opts([cfg.ListOpt("mechanism_drivers")], group="ml2")
        nova.register_opts([cfg.StrOpt("force_config_drive", default="")])
        networks = cfg.ListOpt("physical_networks", default=[])
        neutron.register_opts([networks], group=neutron_options.ML2_GROUP)
        return checks.Dhcp(
            drivers=tuple(neutron.ml2.mechanism_drivers or ()),
            networks=bool(neutron[neutron_options.ML2_GROUP][networks.name]),
            # As Nova parses it (nova/virt/configdrive.py).
            config_drive=strutils.bool_from_string(nova.force_config_drive),
            agent=self._has_process("neutron-dhcp-agent"),
        )

    def agents(self) -> checks.Agents | Unknown:
        """Return the agents that report on the message queue."""
        files = [*self._nova, *self._own]
        conf = _loaded(files)
        if isinstance(conf, Unknown):
            return conf
        conf.register_opts(config.TRANSPORT_OPTS, group="sriov_rt")
        conf.register_opts(config.TRANSPORT_OPTS)
        if not (conf.sriov_rt.transport_url or conf.transport_url):
            return Unknown("no transport_url names the message queue here")
        try:
            found = collect.hear(
                [str(each) for each in files],
                collect.WAIT_S,
                faults.progress(is_quiet=False),
            )
        except (collect.QueueUnusable, collect.BrokerRefuses) as error:
            # The errors' own advice names options that this program lacks.
            return Unknown(
                f"{error.problem}; check that transport_url of [sriov_rt], or "
                "else of [DEFAULT], is that of the agents, and that they run"
            )
        except exceptions.SriovRtError as error:
            return Unknown(str(error))
        versions = {
            each.host: each.version
            for each in found.candidates((), 0)
            if each.facts is not None
        }
        rivals = {host: found.rivals.of(host) for host in found.rivals}
        return checks.Agents(versions, dict(found.refused), rivals)

    def stored_ports(self) -> checks.StoredPorts | Unknown:
        """Return the state of the files with records."""
        conf = _loaded(self._own)
        if isinstance(conf, Unknown):
            return conf
        vif_options.register(conf)
        try:
            directory = pathlib.Path(conf[vif_options.GROUP].records)
        except cfg.Error as error:
            return Unknown(str(error))
        path = self.root.path / directory.absolute().relative_to("/")
        try:
            return stored_ports(path)
        except OSError as error:
            return Unknown(f"{error.filename}: {error.strerror}")

    def shim(self) -> checks.Shim:
        """Return the module that Nova imports the compute driver from."""
        # For a name without a dot, find_spec() imports no package.
        spec = importlib.util.find_spec("nova")
        if spec is None or spec.origin is None:
            return checks.Shim(None, is_there=False)
        path = pathlib.Path(spec.origin).parent / "virt" / "sriov_rt.py"
        return checks.Shim(str(path), is_there=path.is_file())

    def units(self) -> Iterator[checks.Unit]:
        """Yield the units of the package, each with its installed files."""
        for path in self._shipped_units():
            name = path.name
            try:
                shipped = path.read_text("utf-8")
            except (OSError, ValueError) as error:
                yield checks.Unit(name, "", Unknown(str(error)))
                continue
            yield checks.Unit(name, shipped, self._installed(name))

    def _shipped_units(self) -> Iterator[pathlib.Path]:
        for each in _package_files():
            if _SHIPPED_UNITS in str(each) and each.suffix == ".service":
                yield pathlib.Path(str(each.locate()))
        if _distributed() is not None:
            directory = self.root.path / _DISTRIBUTED_UNITS
            yield from sorted(directory.glob("sriov-rt*.service"))

    def compute(self) -> checks.Compute:
        """Return the nova-compute of the host."""
        driver = compute_driver_socket.observe(self.root, self.name)
        return checks.Compute(
            configured=self.configured_driver(),
            is_running=self._has_process("nova-compute"),
            driver=driver.version if isinstance(driver, Driver) else driver,
        )

    def configured_driver(self) -> str | None | Unknown:
        """Return ``[DEFAULT] compute_driver`` of nova.conf."""
        conf = _loaded(self._nova)
        if isinstance(conf, Unknown):
            return conf
        conf.register_opts([cfg.StrOpt("compute_driver")])
        found: str | None = conf.compute_driver
        return found

    @staticmethod
    def kubevirt() -> checks.KubeVirt | Unknown | None:
        """Return the state of KubeVirt in the kubeconfig's cluster."""
        path = paths.kubeconfig()
        if path is None:
            return None
        try:
            get = cluster.connect(path, None)
            plugin = get(contract.PLUGIN_PATH)
            every = manifest.objects(get(contract.KUBEVIRT_PATH), "items")
        except exceptions.SriovRtError as error:
            return Unknown(str(error))
        if not every:
            return None
        gates = manifest.words(
            every[0],
            "spec",
            "configuration",
            "developerConfiguration",
            "featureGates",
        )
        return checks.KubeVirt(
            manifest.text(every[0], "status", "observedKubeVirtVersion"),
            contract.GATE in gates,
            None if plugin is None else manifest.mapping(plugin, "spec"),
        )

    def _agent(self) -> cfg.ConfigOpts:
        """Return the agent's options, with defaults if one is rejected."""
        found = _loaded(self._own)
        if not isinstance(found, Unknown):
            agent_options.register(found)
            # A rejected option is reported as a problem.
            with contextlib.suppress(exceptions.SriovRtError):
                agent_options.check(found)
                return found
        conf = config.load([])
        agent_options.register(conf)
        return conf

    def _expanded(self, names: Sequence[str]) -> Iterator[pathlib.Path]:
        """Yield the files below the root, and those in each ``.d`` directory.

        A path that may not be searched is yielded, too: reading it fails.
        """
        for name in names:
            path = self.root.path / name.lstrip("/")
            try:
                if name.endswith(".d"):
                    yield from sorted(
                        each
                        for each in path.iterdir()
                        if each.suffix == ".conf"
                    )
                else:
                    path.lstat()
                    yield path
            except (FileNotFoundError, NotADirectoryError):
                continue
            except PermissionError:
                yield path

    def _installed(self, name: str) -> tuple[str, ...] | Unknown:
        unit = f"{UNITS}/{name}"
        if self.root.exists(unit) is False:
            return ()
        drop_ins = known_or(self.root.list_dir(f"{unit}.d"), ())
        texts = []
        for each in (
            unit,
            *(f"{unit}.d/{x}" for x in drop_ins if x.endswith(".conf")),
        ):
            text = self.root.read_text(each, may_be_empty=True)
            if isinstance(text, Unknown):
                return text
            texts.append(text)
        return tuple(texts)

    def _has_process(self, program: str) -> bool | Unknown:
        """Return whether a process runs a program, by its command line."""
        names = self.root.list_dir("proc")
        if isinstance(names, Unknown):
            return names
        for pid in filter(str.isdecimal, names):
            text = self.root.read_text(f"proc/{pid}/cmdline", _MAX_CMDLINE)
            # An interpreter may precede it, perhaps with an option.
            if not isinstance(text, Unknown) and any(
                pathlib.PurePath(word).name == program
                for word in text.split("\0")[:3]
            ):
                return True
        return False


def stored_ports(place: pathlib.Path) -> checks.StoredPorts:
    """Return the state of the files with the records of ports.

    This changes nothing and takes no lock.

    :raises OSError: if a directory or a file cannot be read.
    """
    directory = place / records.DIRECTORY
    names = _names(directory)
    found, damaged = _parsed(directory, names)
    current = {
        port: record
        for port, record in found.items()
        if record.boot == records.boot_id()
    }
    return checks.StoredPorts(
        damaged={
            **damaged,
            **{
                port: each.reason
                for port, each in current.items()
                if each.damaged
            },
        },
        kept=tuple(name for name in names if records.DAMAGED in name),
        in_progress=tuple(
            port for port, each in current.items() if each.is_in_progress
        ),
    )


def _parsed(
    directory: pathlib.Path, names: Sequence[str]
) -> tuple[dict[str, Record], dict[str, str]]:
    """Return the records in files, and the problems of damaged files."""
    found: dict[str, Record] = {}
    damaged: dict[str, str] = {}
    for name in names:
        if not validation.is_port(name):
            continue
        try:
            path, limit = directory / name, records.MAX_FILE
            found[name] = records.parse(
                bounded.read(path, limit, private=True)
            )
        except FileNotFoundError:
            continue  # unplugged meanwhile
        except (bounded.Unusable, exceptions.SriovRtError) as error:
            damaged[name] = _problem(error)
    return found, damaged


def _problem(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)


def _names(directory: pathlib.Path) -> list[str]:
    try:
        return sorted(each.name for each in directory.iterdir())
    except FileNotFoundError:
        return []


def _loaded(files: Sequence[pathlib.Path]) -> cfg.ConfigOpts | Unknown:
    try:
        return config.load(files)
    except cfg.Error as error:
        return Unknown(str(error))


def _problems(
    files: Iterable[pathlib.Path],
    readers: Sequence[tuple[str, Check]],
) -> Iterator[checks.ConfigurationProblem]:
    found = tuple(files)
    if not found:
        return
    for service, check in readers:
        try:
            check(config.load(found), service)
        except exceptions.SriovRtError as error:
            yield checks.ConfigurationProblem(str(error))
        except (
            cfg.ConfigFilesPermissionDeniedError,
            PermissionError,
        ) as error:
            yield checks.ConfigurationProblem(
                f"{error}; run it as a user who may read the file",
                is_unreadable=True,
            )
            return
        except cfg.Error as error:
            yield checks.ConfigurationProblem(
                f"{error}; correct it and start {service} again"
            )
            return


def _package_files() -> Sequence[importlib.metadata.PackagePath]:
    """Return the files of the installed package.

    A build also leaves metadata in a checkout, which lists the sources.
    """
    for each in importlib.metadata.distributions(name=PACKAGE):
        if each.read_text("RECORD"):
            return each.files or ()
    return ()


def _distributed() -> importlib.metadata.Distribution | None:
    """Return the metadata if a distribution's package installed sriov-rt.

    It has no list of files for Python: dpkg has that.
    """
    for each in importlib.metadata.distributions(name=PACKAGE):
        if each.read_text("INSTALLER") and not each.read_text("RECORD"):
            return each
    return None
