# SPDX-License-Identifier: Apache-2.0

"""Debian packages, unpacked into the cache and not installed.

The mirror is the one that the machine itself uses. A tree in the cache is
named after the version of what is in it, and is used as long as it is
there: remove it to get a newer one.
"""

import contextlib
import dataclasses
import fcntl
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from tests.testbed import errors
from tests.testbed.waiting import run

#: The release that the versions below belong to.
RELEASE = "bookworm"
#: Where QEMU 8 or later comes from (bookworm's own 7.2 has no igb), and a
#: newer kernel.
BACKPORTS = f"{RELEASE}-backports"

_KEYRING = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_INDEX_FORMAT = "$(IDENTIFIER) $(CODENAME) $(LABEL) $(REPO_URI)"
_DOWNLOAD_SECONDS = 300.0
_APT_SECONDS = 60.0


@dataclasses.dataclass(frozen=True)
class Tree:
    """Packages that were unpacked into one directory.

    :param version: of the package that the tree is named after.
    :param root: the directory.
    """

    version: str
    root: pathlib.Path


class Unpacker:
    """Downloads packages with apt and unpacks them.

    :param cache: directory for the trees.
    """

    def __init__(self, cache: pathlib.Path) -> None:
        self._cache = cache

    def kernel(self, flavour: str, *, backport: bool = False) -> Tree:
        """Return the newest kernel of the machine's own release.

        :param flavour: Debian's, as in "rt-amd64".
        :param backport: of the backports suite in its place.
        :raises errors.TestbedError: when apt can't find or fetch it.
        """
        prefix = f"linux-{'backport-' if backport else ''}{flavour}_"
        with self._locked():
            found = self._newest(prefix)
            if found is not None:
                return found
            environment = self._backports_environment() if backport else None
            package = _kernel_package(flavour, environment)
            return self._add(prefix, [package], environment)

    def packages(
        self, package: str, *more: str, backport: bool = False
    ) -> Tree:
        """Return packages of the machine's own release, in one tree.

        :param package: the package that the tree is named after.
        :param more: further packages.
        :param backport: of the backports suite in its place.
        :raises errors.TestbedError: when apt can't find or fetch them.
        """
        prefix = f"{package}_"
        with self._locked():
            found = self._newest(prefix)
            if found is not None:
                return found
            environment = self._backports_environment() if backport else None
            return self._add(prefix, [package, *more], environment)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep two harnesses with one cache from unpacking at once."""
        self._cache.mkdir(parents=True, exist_ok=True)
        with (self._cache / "lock").open("w") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield

    def _newest(self, prefix: str) -> Tree | None:
        found = sorted(
            self._cache.glob(f"{prefix}*"),
            key=lambda path: path.stat().st_mtime,
        )
        if not found:
            return None
        return Tree(found[-1].name.removeprefix(prefix), found[-1])

    def _add(
        self,
        prefix: str,
        packages: Sequence[str],
        environment: Mapping[str, str] | None,
    ) -> Tree:
        """Download packages, unpack them and name the tree."""
        with tempfile.TemporaryDirectory(dir=self._cache) as scratch:
            room = pathlib.Path(scratch)
            files = download(packages, room, environment)
            # dpkg takes the mode of the root from the last archive.
            draft = room / "tree"
            for file in files:
                run(
                    ["dpkg", "-x", str(file), str(draft)],
                    timeout=_APT_SECONDS,
                )
            version = run(
                ["dpkg-deb", "-f", str(files[0]), "Version"],
                timeout=_APT_SECONDS,
            ).strip()
            # A colon would end the path in QEMU's and apt's options.
            version = version.replace(":", ".")
            tree = Tree(version, self._cache / f"{prefix}{version}")
            draft.rename(tree.root)
        return tree

    def _backports_environment(self) -> dict[str, str]:
        """Make an apt of our own that knows the backports suite alone."""
        home = self._cache / "apt"
        shutil.rmtree(home, ignore_errors=True)
        for part in ("lists/partial", "cache/archives/partial", "parts"):
            (home / part).mkdir(parents=True)
        (home / "sources.list").write_text(
            f"deb [signed-by={_KEYRING}] {_mirror()} {BACKPORTS} main\n"
        )
        configuration = home / "apt.conf"
        configuration.write_text(
            f'Dir::State::lists "{home}/lists";\n'
            f'Dir::Cache "{home}/cache";\n'
            f'Dir::Etc::sourcelist "{home}/sources.list";\n'
            f'Dir::Etc::sourceparts "{home}/parts";\n'
            f'Dir::Etc::preferencesparts "{home}/parts";\n'
            'APT::Sandbox::User "root";\n'
        )
        environment = {**os.environ, "APT_CONFIG": str(configuration)}
        run(
            ["apt-get", "-q", "update"],
            timeout=_DOWNLOAD_SECONDS,
            environment=environment,
        )
        return environment


def download(
    packages: Sequence[str],
    directory: pathlib.Path,
    environment: Mapping[str, str] | None = None,
) -> list[pathlib.Path]:
    """Fetch packages, and return their files in the same order.

    :param packages: names, with ``=VERSION`` for another than the newest.
    :param directory: each gets a directory of its own in it.
    :param environment: of apt; ours when None.
    :raises errors.TestbedError: when apt can't find or fetch one.
    """
    files: list[pathlib.Path] = []
    for package in packages:
        target = directory / package
        target.mkdir()
        run(
            (
                *("env", f"--chdir={target}", "apt-get", "-q"),
                *("-o", "APT::Sandbox::User=root", "download", package),
            ),
            timeout=_DOWNLOAD_SECONDS,
            environment=environment,
        )
        files.extend(target.glob("*.deb"))
    return files


def _mirror() -> str:
    """Return the address that the machine fetches its release from."""
    lines = run(
        ("apt-get", "indextargets", "--format", _INDEX_FORMAT),
        timeout=_APT_SECONDS,
    ).splitlines()
    for line in lines:
        if line.startswith(f"Packages {RELEASE} Debian "):
            return line.rpartition(" ")[2]
    raise errors.TestbedError(
        f"apt knows no Debian {RELEASE} here; run apt-get update, or add "
        "the release to its sources"
    )


def _kernel_package(
    flavour: str, environment: Mapping[str, str] | None
) -> str:
    """Return the package that Debian's newest kernel of a flavour is."""
    lines = run(
        ["apt-cache", "depends", f"linux-image-{flavour}"],
        timeout=_APT_SECONDS,
        environment=environment,
    ).splitlines()
    for line in lines:
        kind, _, package = line.strip().partition(": ")
        if kind == "Depends" and package.startswith("linux-image-"):
            return package
    raise errors.TestbedError(
        f"apt finds no linux-image-{flavour}; run apt-get update first"
    )
