# SPDX-License-Identifier: Apache-2.0

"""pyproject.toml has all of it; this has pbr give it version and files."""

import setuptools

setuptools.setup(setup_requires=["pbr"], pbr=True)
