# SPDX-License-Identifier: Apache-2.0

"""Modules that are imported in place of ours."""

import contextlib
import importlib
import sys
from unittest import mock


@contextlib.contextmanager
def replaced(name, module):
    """Have another module imported for a name; None cannot be imported.

    What a module was imported as before is an attribute of its package, which
    'from PACKAGE import NAME' takes first.
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
