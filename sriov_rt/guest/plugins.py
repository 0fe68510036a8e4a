# SPDX-License-Identifier: Apache-2.0

"""Guest hooks of other packages (stevedore ``sriov_rt.guest_hooks``)."""

from collections.abc import Mapping
from typing import Any

import stevedore

from sriov_rt import exceptions
from sriov_rt.guest import engine
from sriov_rt.guest.hook import Hook

#: Entry points, each a class that is constructed without arguments.
NAMESPACE = "sriov_rt.guest_hooks"


class HookUnusable(exceptions.SriovRtError):
    """An installed guest hook can't be loaded.

    :param name: the name of its entry point.
    :param problem: what loading it raised.
    """

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"the guest hook {self.name} can't be loaded ({self.problem}); "
            "repair or remove the package that it comes from"
        )


def load() -> Mapping[str, Hook]:
    """Return our hooks in their order, then the others by name.

    An installed hook that has the name of one of ours replaces it.

    :raises HookUnusable: if a hook can't be loaded: a guest must not start
        without the hooks that an operator installed for it.
    """
    manager = stevedore.ExtensionManager(
        NAMESPACE,
        invoke_on_load=True,
        on_load_failure_callback=_fail,
    )
    hooks = dict(engine.OWN_HOOKS)
    for extension in sorted(manager.extensions, key=lambda each: each.name):
        hook: Any = extension.obj
        hooks[extension.name] = hook
    return hooks


def _fail(manager: Any, entry_point: Any, error: BaseException) -> None:
    raise HookUnusable(entry_point.name, str(error)) from error
