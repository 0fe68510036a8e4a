# SPDX-License-Identifier: Apache-2.0

"""Guru Meditation report of a running agent, written on SIGUSR2."""

import importlib.metadata
import signal
from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from oslo_reports import guru_meditation_report
from oslo_reports import opts
from oslo_reports.generators.threading import GreenThreadReportGenerator


class _Version:
    """Version of the program in a report, by oslo.reports' own names."""

    def vendor_string(self) -> str:
        return "OpenStack"

    def product_string(self) -> str:
        return "sriov-rt"

    def version_string_with_package(self) -> str:
        return importlib.metadata.version("sriov-rt")


class _Report(guru_meditation_report.TextGuruMeditation):
    """A report without green threads: no agent has any.

    They are looked for among all objects of the process. A tuple that another
    thread was building then ends in a SystemError of that thread
    (bugs.python.org/issue15108), and an agent whose thread fails ends.
    """

    def add_section(
        self, heading: Any, generator: Any, index: int | None = None
    ) -> None:
        if not isinstance(generator, GreenThreadReportGenerator):
            super().add_section(heading, generator, index)


def register_options(conf: cfg.ConfigOpts) -> None:
    """Register ``[oslo_reports]``, which says where reports go."""
    opts.set_defaults(conf)


def handle_signals(
    conf: cfg.ConfigOpts, name: str, requested: Callable[[int], object]
) -> None:
    """Write a report on SIGUSR2, and ignore SIGUSR1.

    A report takes locks, which the thread that a signal interrupts may have:
    it is not written by the handler, but by who is notified of the signal.

    :param conf: with the options of :func:`register_options`.
    :param name: the program's, in the names of the reports' files.
    :param requested: is called on SIGUSR2, and calls :func:`write` soon.
    """
    # Reports came on SIGUSR1 once: it is not to end the agent.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGUSR2, lambda number, _frame: requested(number))
    # They come by a file's change if the options say so.
    _Report.setup_autorun(
        _Version(), service_name=name, conf=conf, setup_signal=False
    )


def write(conf: cfg.ConfigOpts, name: str) -> None:
    """Write a report to standard error, or where ``[oslo_reports]`` says."""
    _Report.handle_signal(_Version(), name, conf.oslo_reports.log_dir, None)
