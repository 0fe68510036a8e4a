# SPDX-License-Identifier: Apache-2.0

"""Python environments in the cache, and the checkout's own on top of one.

An environment in the cache is named after what it was made from, and lacks
sriov-rt, so that several checkouts can use it at the same time. :func:`checks`
adds the checkout, its entry points and its programs in ``.tox/checks``, which
takes a second and builds nothing. That has the requirements of all
environments of :data:`SHARED` in tox.ini, and runs their commands.
"""

import base64
import configparser
import contextlib
import dataclasses
import fcntl
import functools
import hashlib
import pathlib
import shlex
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from tests.testbed import paths
from tests.testbed import python_env
from tests.testbed.waiting import run_logged

#: The cache directory, as tox.ini writes it.
_CACHE = "{env:SRIOV_RT_CACHE:{env:HOME}/.cache/sriov-rt}"

#: Environments of tox.ini whose commands run in one environment.
SHARED = (
    "pep8",
    "mypy",
    "unit",
    "functional",
    "kubernetes",
    "docs",
    "benchmarks",
)

#: Seconds that an environment may take to install from an empty cache.
_INSTALL_S = 1800


def make(name: str, wanted: Iterable[str], pins: pathlib.Path) -> pathlib.Path:
    """Return an environment in the cache, made if need be.

    It finds our compute driver, which Nova only imports from its own tree.

    :param name: its name before the hash of its content.
    :param wanted: requirements that pip installs.
    :param pins: pip's constraints file.
    :raises errors.TestbedError: if something can't be installed.
    """
    cache = paths.Paths.from_environment().cache
    cache.mkdir(parents=True, exist_ok=True)
    requirements = sorted(set(wanted))
    shim = python_env.SHIM
    text = "\n".join(
        (sys.version, *requirements, pins.read_text(), shim.read_text())
    )
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    home = cache / f"venv-{name}-{key}"
    mark = home / ".installed"
    with _locked(home):
        if not mark.exists():
            log = cache / f"{home.name}.log"
            # Without links into the environment that runs this.
            command = (sys.executable, "-m", "venv", "--clear", str(home))
            run_logged(command, timeout=300, log=log)
            pip = (str(home / "bin/pip"), "install", "-c", str(pins))
            run_logged((*pip, *requirements), timeout=_INSTALL_S, log=log)
            for virt in home.glob("lib/python3*/site-packages/nova/virt"):
                shutil.copy(shim, virt)
            mark.touch()
    return home


def extras() -> tuple[str, ...]:
    """Return the requirements of all extras of the package."""
    found = _project()["optional-dependencies"]
    return tuple(sorted({each for extra in found.values() for each in extra}))


def read(name: str) -> Sequence[str]:
    """Return the requirements in a file.

    :param name: path of the file, from the top of the checkout.
    """
    lines = (paths.CHECKOUT / name).read_text().splitlines()
    words = (line.partition("#")[0].strip() for line in lines)
    return [word for word in words if word]


@functools.cache
def entry_points() -> pathlib.Path:
    """Return an import directory with the entry points of sriov-rt.

    Their modules are those of the checkout.
    """
    target = pathlib.Path(tempfile.mkdtemp())
    _describe(target)
    return target


@dataclasses.dataclass(frozen=True)
class Checks:
    """The environment that runs the commands of :data:`SHARED`.

    :param home: its directory.
    """

    home: pathlib.Path

    def variables(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables of its commands.

        :param inherited: variables to which its own are added.
        """
        return {
            **inherited,
            **_set(_ini()["testenv"]["setenv"]),
            "PATH": f"{self.home / 'bin'}:{inherited['PATH']}",
            "VIRTUAL_ENV": str(self.home),
        }

    def commands(
        self, name: str, arguments: Sequence[str] = ()
    ) -> list[list[str]]:
        """Return the commands of an environment of tox.ini.

        :param name: one of :data:`SHARED`.
        :param arguments: replace ``{posargs}``.
        """
        scratch = self.home / "tmp" / name
        scratch.mkdir(parents=True, exist_ok=True)
        given = {
            "{toxinidir}": str(paths.CHECKOUT),
            "{envtmpdir}": str(scratch),
            _CACHE: str(paths.Paths.from_environment().cache),
            "{posargs}": shlex.join(arguments),
        }
        ini = _ini()
        default = ini["testenv"]["commands"]
        text = ini[f"testenv:{name}"].get("commands", default)
        text = text.replace("\\\n", " ")
        for word, value in given.items():
            text = text.replace(word, value)
        return [shlex.split(line) for line in text.splitlines() if line]


def checks() -> Checks:
    """Return the environment of this checkout, made if need be.

    :raises errors.TestbedError: if something can't be installed.
    """
    shared = make("checks", _of_shared(), python_env.pins())
    home = paths.CHECKOUT / ".tox" / "checks"
    mark = home / ".made-from"
    made_from = (
        *(paths.CHECKOUT, shared, _pyproject().read_text(), *_files()),
        pathlib.Path(__file__).read_text(),
    )
    text = "\n".join(map(str, made_from))
    home.parent.mkdir(exist_ok=True)
    with _locked(home):
        if not mark.exists() or mark.read_text() != text:
            _put_on_top(shared, home)
            mark.write_text(text)
    return Checks(home)


@contextlib.contextmanager
def _locked(home: pathlib.Path) -> Iterator[None]:
    """Prevent others from making an environment at the same time."""
    with home.with_name(f"{home.name}.lock").open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _put_on_top(shared: pathlib.Path, home: pathlib.Path) -> None:
    """Make an environment from another one and the checkout.

    :param shared: the other one.
    :param home: where to make it.
    """
    log = home.with_name(f"{home.name}.log")
    python = shared / "bin/python3"
    command = (str(python), "-m", "venv", "--clear", "--without-pip")
    run_logged((*command, str(home)), timeout=300, log=log)
    (site,) = home.glob("lib/python3*/site-packages")
    (other,) = shared.glob("lib/python3*/site-packages")
    # Plain paths, which pip's isolated builds leave out.
    (site / "checkout.pth").write_text(f"{paths.CHECKOUT}\n{other}\n")
    _describe(site)
    # Nova and Neutron look for their own files there.
    (home / "etc").symlink_to(shared / "etc")
    (home / "share").mkdir()
    (home / "share/sriov-rt").symlink_to(paths.CHECKOUT / "etc")
    own = home / "bin"
    for program in (shared / "bin").iterdir():
        target = own / program.name
        if not program.is_file() or target.exists():
            continue
        if program.read_bytes().startswith(f"#!{shared}".encode()):
            script = f'exec {own}/python3 "{program}" "$@"'
            _write_program(target, "/bin/sh", script)
        else:
            target.symlink_to(program)
    for name, where in _project()["scripts"].items():
        module, _, function = where.partition(":")
        _write_program(
            own / name,
            f"{own}/python3",
            f"import sys\nfrom {module} import {function}\n"
            f"sys.exit({function}())",
        )


def _write_program(
    target: pathlib.Path, interpreter: str, script: str
) -> None:
    target.write_text(f"#!{interpreter}\n{script}\n")
    target.chmod(0o755)


def _describe(site: pathlib.Path) -> None:
    """Write the metadata of an installed sriov-rt, as a wheel does.

    :param site: the directory to import from.
    """
    version = python_env.VERSION
    target = site / f"sriov_rt-{version}.dist-info"
    target.mkdir()
    (target / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: sriov-rt\nVersion: {version}\n"
    )
    project = _project()
    groups = {
        "console_scripts": project["scripts"],
        **project["entry-points"],
    }
    (target / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n"
            + "".join(f"{name} = {where}\n" for name, where in rows.items())
            for group, rows in groups.items()
        )
    )
    (target / "RECORD").write_text(
        "".join(f"{name},{digest},\n" for name, digest in _files())
    )


def _files() -> Iterator[tuple[str, str]]:
    """Yield the files beside the modules, each with its digest or none."""
    digest = hashlib.sha256(python_env.SHIM.read_bytes()).digest()
    text = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    yield "nova/virt/sriov_rt.py", f"sha256={text}"
    etc = paths.CHECKOUT / "etc"
    for each in sorted(etc.rglob("*")):
        if each.is_file():
            yield f"../../../share/sriov-rt/{each.relative_to(etc)}", ""


def _of_shared() -> list[str]:
    """Return the requirements of :data:`SHARED`, except for sriov-rt."""
    found = [*read("requirements.txt"), *extras()]
    ini = _ini()
    for section in ("testenv", *(f"testenv:{name}" for name in SHARED)):
        for line in ini[section].get("deps", "").splitlines():
            if line.startswith("-r"):
                found += read(line.removeprefix("-r{toxinidir}/"))
            elif line and not line.startswith(("-c", "{")):
                found.append(line)
    return found


def _set(text: str) -> dict[str, str]:
    lines = (line.partition("=") for line in text.splitlines() if line)
    return {name.strip(): value.strip() for name, _, value in lines}


def _ini() -> configparser.ConfigParser:
    ini = configparser.ConfigParser(interpolation=None)
    ini.read(paths.CHECKOUT / "tox.ini")
    return ini


def _pyproject() -> pathlib.Path:
    return paths.CHECKOUT / "pyproject.toml"


def _project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(_pyproject().read_text())["project"]
    return found


if __name__ == "__main__":
    checks()
