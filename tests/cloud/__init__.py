# SPDX-License-Identifier: Apache-2.0

"""Tests against a real cloud with a realtime compute host.

Each runs inside a cloud that is up; test_certificate wants the tools that
measure installed before that, and test_migration SSH downloaded::

    python3 -m tests.testbed.latency
    python3 -m tests.testbed.ssh
    python3 -m tests.testbed up
    python3 -m tests.testbed inside -- \\
        python3 -m unittest -v tests.cloud.test_guest
    python3 -m tests.testbed down
"""
