# SPDX-License-Identifier: Apache-2.0

"""Settings of ``[onload]``, each value checked."""

import dataclasses
import re
from collections.abc import Sequence

from oslo_config import cfg

from sriov_rt import config
from sriov_rt.host.root import Root
from sriov_rt.onload import grammar
from sriov_rt.onload import options
from sriov_rt.onload import profiles
from sriov_rt.onload import variables
from sriov_rt.onload.errors import ConfigurationUnreadable
from sriov_rt.onload.errors import NotConfigured
from sriov_rt.onload.errors import OptionRejected
from sriov_rt.onload.profiles import Directories
from sriov_rt.onload.profiles import Profile

#: Absolute path of plain names: it is passed to libvirt, lxc.conf and ld.so,
#: for which spaces, colons and ``$ORIGIN`` have a meaning.
_PATH = re.compile(r"(?:/[A-Za-z0-9_+-][A-Za-z0-9._+-]*){1,32}", re.ASCII)
_LIBRARY_NAME = re.compile(r"lib[A-Za-z0-9_+-]+\.so(?:\.[0-9]+)*", re.ASCII)
_RESOURCE = re.compile(r"[a-z0-9][a-z0-9.-]*/[A-Za-z0-9][A-Za-z0-9._-]*")

#: The longest path and the most items of a list.
MAX_PATH = 255
MAX_ITEMS = 64


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """Settings of ``[onload]``; see :mod:`sriov_rt.onload.options`."""

    profile_directories: tuple[str, ...] = (options.PROFILE_DIRECTORY,)
    profiles: frozenset[str] = frozenset()
    default_profile: str | None = None
    also_allow: frozenset[str] = frozenset()
    library: str | None = None
    inside: str = options.INSIDE
    devices: tuple[str, ...] = ()
    resource: str = "amd.com/onload"
    guest_library: str = "libonload.so"

    def profile(self, name: str | None, root: Root) -> Profile | None:
        """Return the profile that a flavor names, or the default one.

        :returns: None if the flavor names none and there is no default.
        :raises OnloadError: from :func:`sriov_rt.onload.profiles.resolve`.
        """
        profile = self.default_profile if name is None else name
        if profile is None:
            return None
        places = Directories(root, self.profile_directories)
        return profiles.resolve(
            profile, places, self.profiles, self.also_allow
        )

    def needed_library(self) -> str:
        """Return the library's path.

        :raises NotConfigured: if it is not set.
        """
        if self.library is None:
            raise NotConfigured("library")
        return self.library


def load(files: Sequence[str] | None = None) -> Settings:
    """Return the settings of a host's configuration files.

    :param files: files to read; by default oslo.config finds sriov-rt.conf.
    :raises ConfigurationUnreadable: if they can't be read.
    :raises OptionRejected: for an unusable value.
    """
    return of(configuration(files))


def configuration(files: Sequence[str] | None = None) -> cfg.ConfigOpts:
    """Return the configuration from a host's files.

    :param files: files to read; by default oslo.config finds sriov-rt.conf.
    :raises ConfigurationUnreadable: if they can't be read.
    """
    try:
        conf = config.load(files)
    except cfg.Error as error:
        raise ConfigurationUnreadable(config.unreadable(error)) from None
    options.register(conf)
    return conf


def of(conf: cfg.ConfigOpts) -> Settings:
    """Return the settings of a configuration.

    :param conf: configuration with :mod:`sriov_rt.onload.options`.
    :raises OptionRejected: for an unusable value.
    """
    given = conf.onload
    names = _names(given.profiles)
    default = given.default_profile or None
    if default is not None and default not in names:
        problem = "not one of [onload] profiles"
        raise OptionRejected("default_profile", default, problem)
    library = given.library or None
    if library is not None:
        _path("library", library)
        _library_name("library", library.rpartition("/")[2], library)
    return Settings(
        profile_directories=_paths(
            "profile_directories", given.profile_directories
        ),
        profiles=names,
        default_profile=default,
        also_allow=_withheld(given.also_allow),
        library=library,
        inside=_path("inside", given.inside),
        devices=_devices(given.devices),
        resource=_resource(given.resource),
        guest_library=_guest_library(given.guest_library),
    )


def check(conf: cfg.ConfigOpts, service: str) -> None:
    """Register and read every option of ``[onload]``, before any is needed.

    :raises config.OptionRejected: naming the first option with a bad value.
    """
    options.register(conf)
    config.check(conf, ((options.GROUP, options.ONLOAD_OPTS),), service)
    try:
        of(conf)
    except OptionRejected as error:
        raise config.rejected(
            conf,
            options.GROUP,
            error.option,
            error.value,
            error.problem,
            service,
        ) from None


def _path(option: str, value: str) -> str:
    if len(value) > MAX_PATH or not _PATH.fullmatch(value):
        problem = (
            "an absolute path of letters, digits and . _ + - expected, no "
            "part of it starting with a dot"
        )
        raise OptionRejected(option, value, problem)
    return value


def _paths(option: str, values: Sequence[str]) -> tuple[str, ...]:
    if len(values) > MAX_ITEMS:
        raise OptionRejected(option, "", f"more than {MAX_ITEMS} items")
    return tuple(_path(option, each) for each in values)


def _names(values: Sequence[str]) -> frozenset[str]:
    for each in values:
        if not grammar.is_name(each):
            problem = "names of A-Z a-z 0-9 . _ - expected"
            raise OptionRejected("profiles", each, problem)
    return frozenset(values)


def _withheld(values: Sequence[str]) -> frozenset[str]:
    for each in values:
        row = variables.VARIABLES.get(each)
        if row is None or not row.is_withheld:
            known = variables.VARIABLES.items()
            names = (name for name, row in known if row.is_withheld)
            problem = f"one of {', '.join(names)} expected"
            raise OptionRejected("also_allow", each, problem)
    return frozenset(values)


def _devices(values: Sequence[str]) -> tuple[str, ...]:
    for each in _paths("devices", values):
        if not each.startswith("/dev/"):
            problem = "a path below /dev expected"
            raise OptionRejected("devices", each, problem)
    return tuple(values)


def _library_name(option: str, name: str, value: str) -> None:
    if not _LIBRARY_NAME.fullmatch(name):
        problem = "a shared library such as libonload.so expected"
        raise OptionRejected(option, value, problem)


def _guest_library(value: str) -> str:
    if "/" in value:
        _path("guest_library", value)
    _library_name("guest_library", value.rpartition("/")[2], value)
    return value


def _resource(value: str) -> str:
    if len(value) > MAX_PATH or not _RESOURCE.fullmatch(value):
        problem = "an extended resource such as amd.com/onload expected"
        raise OptionRejected("resource", value, problem)
    return value
