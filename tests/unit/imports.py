# SPDX-License-Identifier: Apache-2.0

"""Modules that are imported instead of ours."""

import contextlib
import importlib
import sys
from unittest import mock


@contextlib.contextmanager
def replaced(name, module):
    """Let a name import another module; None makes its import fail.

    A module that was imported before is an attribute of its package, which
    'from PACKAGE import NAME' uses first.
    """
    package, _, attribute = name.rpartition(".")
    found = vars(importlib.import_module(package))
    before = found.pop(attribute, None)
    try:
        with mock.patch.dict(sys.modules, {name: module}):
            yield
    finally:
        found.pop(attribute, None)
        if before is not None:
            found[attribute] = before
