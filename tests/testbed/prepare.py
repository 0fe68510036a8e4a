# SPDX-License-Identifier: Apache-2.0

"""Preparation of the machine before a cloud starts."""

import concurrent.futures
import pathlib
from collections.abc import Callable

from tests.testbed import guest_image
from tests.testbed import packages
from tests.testbed import paths
from tests.testbed import python_env
from tests.testbed.progress import Progress
from tests.testbed.rtvm import RtVm
from tests.testbed.rtvm.debian import Unpacker


def prepare(place: paths.Paths, progress: Progress, *, realtime: bool) -> None:
    """Install, download and build what is missing.

    :param place: the directories of the cloud.
    :param progress: shows progress.
    :param realtime: whether to prepare rt-1.
    :raises errors.TestbedError: when something can't be installed.
    """
    place.make()
    env = python_env.PythonEnv.in_cache(place.cache)
    log = place.log / "pip.log"

    def machine() -> None:
        _install_packages(place, progress)
        _make_images(place, progress, realtime=realtime)
        with progress.step("compiled Python packages"):
            env.compile(log)

    def python() -> None:
        with progress.step("OpenStack from PyPI"):
            env.build_pure(log)

    env.create(log)
    _together(python, machine)
    env.install_compiled(log)
    with progress.step("sriov-rt from the checkout"):
        env.install_project(log)


def _install_packages(place: paths.Paths, progress: Progress) -> None:
    wanted = (*packages.CONTROL_PLANE, *RtVm.packages())
    with progress.step("Debian packages"):
        installed = packages.install(wanted, place.log / "apt.log")
    if installed:
        progress.say(f"installed {', '.join(installed)}")


def _make_images(
    place: paths.Paths, progress: Progress, *, realtime: bool
) -> None:
    with progress.step("guest image"):
        kernel = Unpacker(place.cache / "debian").kernel("cloud-amd64")
        guest_image.build(
            pathlib.Path(kernel.root), place.cache / "guest" / kernel.version
        )
    if realtime:
        with progress.step("QEMU, kernel and initramfs of rt-1"):
            RtVm(place).prepare()


def guest(place: paths.Paths) -> guest_image.GuestImage:
    """Return the guest that prepare() made.

    :param place: the directories of the cloud.
    """
    kernel = Unpacker(place.cache / "debian").kernel("cloud-amd64")
    return guest_image.GuestImage.in_directory(
        place.cache / "guest" / kernel.version
    )


def _together(*steps: Callable[[], None]) -> None:
    with concurrent.futures.ThreadPoolExecutor(len(steps)) as pool:
        for future in [pool.submit(step) for step in steps]:
            future.result()
