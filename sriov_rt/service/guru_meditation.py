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
    """Version of the program in a report, with oslo.reports' interface."""

    def vendor_string(self) -> str:
        return "OpenStack"

    def product_string(self) -> str:
        return "sriov-rt"

    def version_string_with_package(self) -> str:
        return importlib.metadata.version("sriov-rt")


class _Report(guru_meditation_report.TextGuruMeditation):
    """A report without green threads: no agent has any.

    oslo.reports searches all objects of the process for them. A tuple that
    another thread is building can then cause a SystemError in that thread
    (bugs.python.org/issue15108), which would end the agent.
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

    A report takes locks, which the interrupted thread may hold. So the signal
    handler does not write it, but makes another thread do so.

    :param conf: with the options of :func:`register_options`.
    :param name: the program's name, used in the reports' file names.
    :param requested: called on SIGUSR2; must lead to a call of :func:`write`.
    """
    # Reports came on SIGUSR1 once, so it must not end the agent.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGUSR2, lambda number, _frame: requested(number))
    # If the options say so, a file's change requests a report instead.
    _Report.setup_autorun(
        _Version(), service_name=name, conf=conf, setup_signal=False
    )


def write(conf: cfg.ConfigOpts, name: str) -> None:
    """Write a report to standard error or as ``[oslo_reports]`` says."""
    _Report.handle_signal(_Version(), name, conf.oslo_reports.log_dir, None)
