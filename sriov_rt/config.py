# SPDX-License-Identifier: Apache-2.0

"""Configuration of a host: sriov-rt.conf, as every program reads it."""

import argparse
import contextlib
import os
import pathlib
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg
from oslo_config import types

from sriov_rt import exceptions
from sriov_rt import files as bounded

PROJECT = "sriov_rt"
PROGRAM = "sriov-rt"

#: The group of options without a group.
DEFAULT = "DEFAULT"

TRANSPORT_OPTS = [
    cfg.StrOpt(
        "transport_url",
        secret=True,
        help="""
The message queue on which sriov-rt's agents and schedulers meet.

Set it where they would not meet by default: in a deployment with several
cells, the agents of every cell and all schedulers need one queue in common,
and ``[DEFAULT] transport_url`` of a compute host is that of its cell. Where
it is not set, ``[DEFAULT] transport_url`` is used.
""",
    ),
]

#: The longest configuration file, in bytes; Nova's sample takes a quarter of
#: a million.
MAX_FILE = 4 * 1024 * 1024

#: oslo.config's message about a bad value, with the file that it is in.
_NOT_VALID = re.compile(
    r"Value for option \S+ from LocationInfo\(.*detail=(?:'(.*)'|\"(.*)\")\) "
    r"is not valid: (.*)",
    re.DOTALL,
)

#: Shown in place of a secret value.
_HIDDEN = "***"


class OptionRejected(exceptions.SriovRtError):
    """An option of a service has an invalid value.

    Not a ValueError, which Nova takes for a wrong class of compute driver.

    :param problem: what is wrong with the value.
    :param service: the service that reads it, such as nova-scheduler.
    :param value: the value as written; None if that is not known.
    :param file: the file that it is in; None likewise.
    """

    def __init__(
        self,
        group: str,
        option: str,
        problem: Exception | str,
        service: str,
        value: str | None = None,
        file: str | None = None,
    ) -> None:
        super().__init__(group, option, problem, service, value, file)
        self.group = group
        self.option = option
        self.problem = problem
        self.service = service
        self.value = value
        self.file = file

    def __str__(self) -> str:
        value = "" if self.value is None else f" = {self.value}"
        place = self.file or f"the configuration of {self.service}"
        return (
            f"[{self.group}] {self.option}{value} in {place} is rejected "
            f"({self.problem}); correct it and start {self.service} again"
        )


class ConfigurationUnreadable(exceptions.SriovRtError):
    """A configuration file cannot be read.

    :param problem: oslo.config's message: the file, and what is wrong in it.
    """

    def __init__(self, problem: cfg.Error) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return unreadable(self.problem)


def unreadable(problem: cfg.Error) -> str:
    """Return the sentence for a configuration file that cannot be read."""
    remedy = "correct it"
    if isinstance(problem, cfg.ConfigFilesPermissionDeniedError):
        remedy = "run as root, or as a user who may read it"
    return (
        f"the configuration cannot be read ({problem}); {remedy}, or name "
        "another by --config-file"
    )


class Checked(types.String):
    """The type of an option whose text a function checks.

    :param check: raises a ValueError for an invalid text.
    """

    def __init__(self, check: Callable[[str], object]) -> None:
        super().__init__()
        self._check = check

    def __call__(self, value: Any) -> str:
        """Return the text.

        :raises ValueError: if it is invalid.
        """
        text: str = super().__call__(value)
        self._check(text)
        return text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checked) and self._check == other._check

    __hash__ = types.String.__hash__


def absolute_path(text: str) -> None:
    """Check that a text is an absolute path.

    :raises ValueError: if it is not.
    """
    if not text.startswith("/"):
        raise ValueError("an absolute path expected")


def absolute_path_or_none(text: str) -> None:
    """Check that a text is an absolute path, or empty.

    :raises ValueError: if it is neither.
    """
    if text:
        absolute_path(text)


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Translate oslo.config's errors while a command reads its options.

    :raises ConfigurationUnreadable: naming the file, and what is wrong in it.
    """
    try:
        yield
    except cfg.Error as error:
        raise ConfigurationUnreadable(error) from error


def load(
    files: Sequence[str | os.PathLike[str]] | None = None,
) -> cfg.ConfigOpts:
    """Return a configuration; its readers register their options there.

    :param files: the only files to read; None for sriov-rt.conf and
        sriov-rt.conf.d in oslo.config's directories.
    :raises oslo_config.cfg.Error: if a file cannot be read.
    """
    check_files(default_files() if files is None else files)
    conf = cfg.ConfigOpts()
    if files is None:
        conf([], project=PROJECT, prog=PROGRAM)
    else:
        conf(
            [],
            project=PROJECT,
            prog=PROGRAM,
            default_config_files=[os.fspath(each) for each in files],
            default_config_dirs=[],
        )
    return conf


def named_files(arguments: Sequence[str]) -> list[str]:
    """Return the configuration files named on a service's command line.

    :param arguments: the command line without the program's name.
    """
    parser = argparse.ArgumentParser(
        add_help=False, allow_abbrev=False, exit_on_error=False
    )
    parser.add_argument("--config-file", action="append", default=[])
    parser.add_argument("--config-dir", action="append", default=[])
    try:
        found, _ = parser.parse_known_args(list(arguments))
    except argparse.ArgumentError:
        return []  # oslo.config reports what is wrong
    return [
        *found.config_file,
        *(
            os.fspath(each)
            for directory in found.config_dir
            for each in sorted(pathlib.Path(directory).glob("*.conf"))
        ),
    ]


def default_files() -> list[str]:
    """Return the files that are read if none is named."""
    directories = cfg.find_config_dirs(PROJECT, PROGRAM)
    return [
        *cfg.find_config_files(PROJECT, PROGRAM),
        *(
            os.fspath(each)
            for directory in directories
            for each in sorted(pathlib.Path(directory).glob("*.conf"))
        ),
    ]


def check_files(files: Iterable[str | os.PathLike[str]]) -> None:
    """Check that files can be a configuration before oslo.config reads them.

    oslo.config would wait for a FIFO, read a device without end, and not name
    a file that is not UTF-8.

    :param files: paths; a file that is missing or may not be opened is left
        to oslo.config, which reports it.
    :raises oslo_config.cfg.ConfigFileParseError: naming the first file that
        cannot be a configuration.
    """
    for each in files:
        try:
            text = bounded.read(os.fspath(each), MAX_FILE)
        except (FileNotFoundError, PermissionError):
            continue
        except OSError as error:
            raise _unparsed(each, error.strerror or str(error)) from None
        if len(text) > MAX_FILE:
            raise _unparsed(each, f"longer than {MAX_FILE} bytes")
        try:
            text.decode()
        except UnicodeDecodeError as error:
            problem = f"not UTF-8 at byte {error.start}"
            raise _unparsed(each, problem) from None


def _unparsed(
    file: str | os.PathLike[str], problem: str
) -> cfg.ConfigFileParseError:
    return cfg.ConfigFileParseError(os.fspath(file), problem)


def check(
    conf: cfg.ConfigOpts,
    groups: Iterable[tuple[str, Iterable[cfg.Opt]]],
    service: str,
) -> None:
    """Read every option, so that a bad value is found before it is needed.

    :param groups: pairs of a group and the options registered in it.
    :raises OptionRejected: naming the first option with a bad value.
    """
    for group, opts in groups:
        section = conf if group == DEFAULT else conf[group]
        for each in opts:
            try:
                section[each.dest]
            except (cfg.Error, ValueError) as error:
                raise _rejected(group, each, error, service) from None


def rejected(
    conf: cfg.ConfigOpts,
    group: str,
    option: str,
    value: str,
    problem: str,
    service: str,
) -> OptionRejected:
    """Return the error for an invalid value that the option's type accepts.

    :param value: the invalid part of the value.
    :param problem: what is wrong with it, a clause.
    """
    location = conf.get_location(option, group)
    file = None
    if location is not None and location.location.is_user_controlled:
        file = location.detail
    return OptionRejected(group, option, problem, service, value, file)


def _rejected(
    group: str, opt: cfg.Opt, error: Exception, service: str
) -> OptionRejected:
    found = _NOT_VALID.fullmatch(str(error))
    if found is None:
        return OptionRejected(group, opt.dest, error, service)
    file = found[1] or found[2]
    if opt.secret:
        problem = "its value is not shown"
        return OptionRejected(group, opt.dest, problem, service, _HIDDEN, file)
    # The file may use an earlier name of the option.
    former = (each.name for each in opt.deprecated_opts if each.name)
    for name in (opt.dest, *former):
        value = _written(file, group, name)
        if value is not None:
            return OptionRejected(group, name, found[3], service, value, file)
    return OptionRejected(group, opt.dest, found[3], service, None, file)


def _written(file: str, group: str, option: str) -> str | None:
    """Return the value of an option as written in a file."""
    sections: dict[str, dict[str, list[str]]] = {}
    try:
        cfg.ConfigParser(file, sections).parse()
    except (OSError, cfg.Error):
        return None
    values = sections.get(group, {}).get(option)
    return values[-1] if values else None
