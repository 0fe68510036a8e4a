# SPDX-License-Identifier: Apache-2.0

"""Errors in Onload's configuration, profiles and programs."""

from sriov_rt import exceptions


class OnloadError(exceptions.SriovRtError):
    """The base of the errors of this package."""


class OptionRejected(OnloadError):
    """An option of ``[onload]`` has an unusable value.

    :param value: the value that the operator set.
    :param problem: what is wrong, or was expected; a clause.
    """

    def __init__(self, option: str, value: str, problem: str) -> None:
        self.option = option
        self.value = value
        self.problem = problem
        super().__init__(
            f"[onload] {option} = {value[:80]!r}: {problem}; correct it in "
            "sriov-rt.conf"
        )


class ConfigurationUnreadable(OnloadError):
    """The configuration file can't be read.

    :param problem: a sentence.
    """

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


class NotConfigured(OnloadError):
    """A required option of ``[onload]`` is not set."""

    def __init__(self, option: str) -> None:
        self.option = option
        super().__init__(
            f"[onload] {option} is not set; set it in sriov-rt.conf"
        )


class ProfileNotAllowed(OnloadError):
    """A profile's name is not on the operator's list.

    :param name: the requested name, which may be any text.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"the Onload profile {name[:80]!r} is not allowed; add it to "
            "[onload] profiles, or ask for one that is there "
            "('sriov-rt onload profile list')"
        )


class ProfileMissing(OnloadError):
    """An allowed profile is in none of the directories.

    :param directories: directories that were searched, in order.
    """

    def __init__(self, name: str, directories: tuple[str, ...]) -> None:
        self.name = name
        self.directories = directories
        places = ", ".join(directories) or "no directory at all"
        super().__init__(
            f"the Onload profile {name!r} is not in {places}; put it there, "
            "or add its directory to [onload] profile_directories"
        )


class ProfileUnreadable(OnloadError):
    """The file of a profile can't be read.

    :param problem: message of the system.
    """

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(
            f"{problem}; make {path} a text file that can be read"
        )


class ProfileRejected(OnloadError):
    """A line of a profile is not data, or not allowed.

    :param line: its number, from 1.
    :param problem: what is wrong with it, a clause.
    """

    def __init__(self, path: str, line: int, problem: str) -> None:
        self.path = path
        self.line = line
        self.problem = problem
        super().__init__(
            f"{path}:{line}: {problem}; write a profile of your own with "
            "plain values, and allow that one"
        )


class NotElf(OnloadError):
    """A file is not an ELF file, or is broken.

    :param problem: what is wrong with it, a clause.
    """

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(
            f"no usable ELF file: {problem}; put a program or a shared "
            "library of glibc in its place"
        )
