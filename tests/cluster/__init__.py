# SPDX-License-Identifier: Apache-2.0

"""Tests of Kubernetes and Magnum in a cloud that is up.

What they bring up is built, installed and downloaded before that::

    python3 -m tests.testbed.kube.programs
    python3 -m tests.testbed.magnum
    python3 -m tests.testbed.kube.worker
    python3 -m tests.testbed up
    python3 -m tests.testbed inside -- \\
        python3 -m unittest -v tests.cluster.test_labels
    python3 -m tests.testbed down
"""
