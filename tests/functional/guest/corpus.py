# SPDX-License-Identifier: Apache-2.0

"""libvirt's own test domains, of Debian's source package of libvirt.

They are fetched with apt, from the mirror that the machine itself uses, into
the cache of the test beds: nothing of them is kept here.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping

from tests.testbed import paths

#: Where they are in the source, before libvirt 10.0 and since.
_DIRECTORIES = ("tests/qemuxml2argvdata/", "tests/qemuxmlconfdata/")

_SOURCES = """deb-src [signed-by={keyring}] {mirror} bookworm main
"""
_CONFIG = """Dir::State::lists "{place}/lists";
Dir::Cache "{place}/cache";
Dir::Etc::sourcelist "{place}/sources.list";
Dir::Etc::sourceparts "{place}/parts";
Dir::Etc::preferencesparts "{place}/parts";
APT::Sandbox::User "root";
Acquire::Languages "none";
"""
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

#: A domain of libvirt's tests; others there are of networks, or of nothing.
_DOMAIN = re.compile(rb"<domain[ >]")


def domains() -> Mapping[str, bytes]:
    """Return name to document, sorted by name."""
    place = paths.Paths.from_environment().cache / "libvirt-domains"
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
            draft = pathlib.Path(scratch) / "domains"
            draft.mkdir()
            _unpack(_source(pathlib.Path(scratch)), draft)
            draft.rename(place)
    return {
        path.stem: path.read_bytes() for path in sorted(place.glob("*.xml"))
    }


def _source(place: pathlib.Path) -> pathlib.Path:
    """Download the source of libvirt, and return its archive."""
    for each in ("lists/partial", "cache/archives/partial", "parts"):
        (place / each).mkdir(parents=True)
    targets = subprocess.run(
        ("apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)"),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (mirror, *_) = re.findall(r"^bookworm (\S+)$", targets, re.MULTILINE)
    (place / "sources.list").write_text(
        _SOURCES.format(keyring=_KEYRING, mirror=mirror)
    )
    config = place / "apt.conf"
    config.write_text(_CONFIG.format(place=place))
    environment = {**os.environ, "APT_CONFIG": str(config)}
    for words in (
        ("apt-get", "-q", "update"),
        ("apt-get", "-q", "source", "--download-only", "libvirt"),
    ):
        subprocess.run(
            words,
            cwd=place,
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=600,
        )
    (archive,) = place.glob("libvirt_*.orig.tar.*z")
    return archive


def _unpack(archive: pathlib.Path, target: pathlib.Path) -> None:
    with tarfile.open(archive) as tar:
        for member in tar:
            _, _, name = member.name.partition("/")
            directory = f"{pathlib.PurePath(name).parent}/"
            if not member.isfile() or directory not in _DIRECTORIES:
                continue
            stream = tar.extractfile(member)
            if stream is None or not name.endswith(".xml"):
                continue
            with (
                stream,
                (target / pathlib.PurePath(name).name).open("wb") as file,
            ):
                shutil.copyfileobj(stream, file)
    for path in target.glob("*.xml"):
        if not _DOMAIN.search(path.read_bytes()):
            path.unlink()
