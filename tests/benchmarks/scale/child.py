# SPDX-License-Identifier: Apache-2.0

"""Processes of the simulation, each of which answers calls by its pipe."""

import importlib
import multiprocessing
import os
import pathlib
import time
import traceback
from typing import Any

#: Nova is imported once, before the forks, as nova-scheduler does it.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.benchmarks.scale.workers"])

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Child:
    """A process with one object, whose methods are called from here.

    :param factory: "module:class" of the object, in this package. Nova's
        modules are imported there, and not here as well.
    :param arguments: of the class.
    """

    def __init__(self, factory: str, *arguments: Any) -> None:
        self._pipe, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(
            target=_serve, args=(theirs, factory, arguments), daemon=True
        )
        self._process.start()
        theirs.close()

    def send(self, verb: str, *arguments: Any) -> None:
        """Call a method and do not wait; :meth:`result` has to follow."""
        self._pipe.send((verb, arguments))

    def result(self) -> Any:
        """Return what the method returned that was called last.

        :raises RuntimeError: with the traceback there.
        :raises EOFError: if the process has ended.
        """
        failure, value = self._pipe.recv()
        if failure:
            raise RuntimeError(failure)
        return value

    def call(self, verb: str, *arguments: Any) -> Any:
        """Call a method and return what it returns."""
        self.send(verb, *arguments)
        return self.result()

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()


def call_all(children: list[Child], verb: str, *arguments: Any) -> list[Any]:
    """Call a method of several processes at once, and return the results."""
    for each in children:
        each.send(verb, *arguments)
    return [each.result() for each in children]


def usage() -> dict[str, float]:
    """Return this process's CPU time, in s, and resident memory, in MB."""
    fields = pathlib.Path("/proc/self/statm").read_text().split()
    return {
        "cpu_s": time.process_time(),
        "memory_mb": int(fields[1]) * _PAGE / 1e6,
    }


def _serve(pipe: Any, factory: str, arguments: tuple[Any, ...]) -> None:
    module, _, name = factory.partition(":")
    imported = importlib.import_module(f"{__package__}.{module}")
    served = getattr(imported, name)(*arguments)
    while True:
        try:
            verb, given = pipe.recv()
        except EOFError:
            return
        answer: tuple[str | None, Any]
        try:
            answer = None, getattr(served, verb)(*given)
        except Exception:  # noqa: BLE001
            answer = traceback.format_exc(), None
        pipe.send(answer)
