# SPDX-License-Identifier: Apache-2.0

"""Build a release: sdist, wheel and their bill of materials (SBOM).

Run by ``tox -e release``, which has the pinned build tools. The same commit
gives the same sdist and wheel, byte for byte, on any machine and at any time:
all times are the commit's, and names are sorted.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from typing import Any

CHECKOUT = pathlib.Path(__file__).resolve().parents[1]
#: What the packages of the SBOM are resolved by.
PINS = CHECKOUT / "tests/constraints/2026.2.txt"

#: Seconds that one step may take.
_STEP_S = 1800.0


class ReleaseError(Exception):
    """The release cannot be built; the message says what to do."""


def _run(
    command: tuple[str, ...],
    where: pathlib.Path,
    environment: dict[str, str] | None = None,
) -> str:
    done = subprocess.run(
        command,
        cwd=where,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_STEP_S,
        # setuptools gives the files of a wheel the modes that it may.
        umask=0o022,
    )
    if done.returncode:
        raise ReleaseError(
            f"{' '.join(command)}: exit code {done.returncode}\n"
            f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return done.stdout


def normalized(sdist: bytes, epoch: int) -> bytes:
    """Return an sdist without the times, owners and order of its making.

    :param sdist: a gzipped tar archive.
    :param epoch: the time of all files, in seconds of Unix time.
    """
    plain = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(sdist), mode="r:gz") as old,
        tarfile.open(
            fileobj=plain, mode="w", format=tarfile.PAX_FORMAT
        ) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda each: each.name):
            member.mtime = epoch
            member.uid = member.gid = 0
            member.uname = member.gname = "root"
            is_program = member.isdir() or member.mode & 0o100
            member.mode = 0o755 if is_program else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member))
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", 9, packed, mtime=epoch) as stream:
        stream.write(plain.getvalue())
    return packed.getvalue()


def build(checkout: pathlib.Path, target: pathlib.Path) -> list[pathlib.Path]:
    """Build a commit's sdist, and its wheel of that sdist.

    :param checkout: a git repository; its HEAD is what is built.
    :param target: the directory that the files are put into.
    :returns: the sdist and the wheel.
    :raises ReleaseError: if that fails.
    """
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        # pbr reads the version, authors and changes from the history.
        clone = scratch / "sriov-rt"
        _run(("git", "clone", "-q", str(checkout), str(clone)), scratch)
        epoch = _run(("git", "log", "-1", "--format=%ct"), clone).strip()
        environment = {"SOURCE_DATE_EPOCH": epoch, "LC_ALL": "C.UTF-8"}
        _run(_backend("sdist", scratch), clone, environment)
        (made,) = scratch.glob("sriov_rt-*.tar.gz")
        sdist = target / made.name
        sdist.write_bytes(normalized(made.read_bytes(), int(epoch)))
        with tarfile.open(sdist) as archive:
            archive.extractall(scratch / "sdist", filter="tar")
        (tree,) = (scratch / "sdist").iterdir()
        _run(_backend("wheel", scratch), tree, environment)
        (wheel,) = scratch.glob("sriov_rt-*.whl")
        shutil.copy(wheel, target)
    return [sdist, target / wheel.name]


def _backend(kind: str, target: pathlib.Path) -> tuple[str, ...]:
    """Return the command that has the build backend build (PEP 517)."""
    script = (
        f"import sys; from pbr import build; build.build_{kind}(sys.argv[1])"
    )
    return (sys.executable, "-c", script, str(target))


def describe(wheel: pathlib.Path) -> pathlib.Path:
    """Write the SBOM of a wheel: it, and what pip installs for it today.

    :returns: a CycloneDX document beside the wheel.
    :raises ReleaseError: if that fails.
    """
    name = "-".join(wheel.name.split("-")[:2])
    target = wheel.with_name(f"{name}.cdx.json")
    with tempfile.TemporaryDirectory() as directory:
        home = pathlib.Path(directory, "env")
        venv = (sys.executable, "-m", "venv", "--without-pip", str(home))
        _run(venv, CHECKOUT)
        python = str(home / "bin/python")
        _run(
            (
                *(sys.executable, "-m", "pip", "--python", python),
                *("install", "-q", "-c", str(PINS), str(wheel)),
            ),
            CHECKOUT,
        )
        _run(
            (
                *(sys.executable, "-m", "cyclonedx_py", "environment"),
                *("--output-reproducible", "--output-format", "JSON"),
                *("--output-file", str(target), python),
            ),
            CHECKOUT,
        )
    target.write_text(_about(json.loads(target.read_text()), wheel))
    return target


def _about(document: dict[str, Any], wheel: pathlib.Path) -> str:
    """Return the SBOM as one about the wheel, with its digest."""
    (own,) = (
        each
        for each in document["components"]
        if each["name"].replace("_", "-") == "sriov-rt"
    )
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    # Where it was installed from is a path of the machine that builds.
    own.pop("externalReferences", None)
    own["hashes"] = [{"alg": "SHA-256", "content": digest}]
    document["components"].remove(own)
    document["metadata"]["component"] = own
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def main() -> int:
    """Build into a directory, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--target", type=pathlib.Path, default=CHECKOUT / "dist"
    )
    parser.add_argument(
        "--no-sbom", action="store_true", help="Leave the SBOM out"
    )
    given = parser.parse_args()
    try:
        if _run(("git", "status", "--porcelain"), CHECKOUT):
            raise ReleaseError("the checkout has changes; commit them")
        given.target.mkdir(parents=True, exist_ok=True)
        found = build(CHECKOUT, given.target)
        if not given.no_sbom:
            found.append(describe(found[-1]))
    except ReleaseError as error:
        print(f"tools/release.py: error: {error}", file=sys.stderr)
        return 1
    for path in found:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        print(f"{digest}  {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
