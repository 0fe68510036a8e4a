# SPDX-License-Identifier: Apache-2.0

"""Notifications of the cloud, heard as Ceilometer hears them."""

import json
import pathlib
import subprocess
import tempfile
import time
from typing import Any

from tests.cloud.base import CloudTestCase
from tests.testbed import programs
from tests.testbed import settings

#: Seconds until the listener listens.
_PATIENCE = 300.0

_LISTENER = """
import json, sys
import oslo_messaging
from oslo_config import cfg

class Endpoint:
    def warn(self, context, publisher_id, event_type, payload, metadata):
        heard = {"publisher": publisher_id, "event": event_type, **payload}
        print(json.dumps(heard), flush=True)

conf = cfg.ConfigOpts()
conf([], default_config_files=[])
listener = oslo_messaging.get_notification_listener(
    oslo_messaging.get_notification_transport(conf, sys.argv[1]),
    [oslo_messaging.Target(topic="notifications")],
    [Endpoint()],
    executor="threading",
)
listener.start()
print("listening", flush=True)
listener.wait()
"""


class Notifications:
    """What was heard and not looked at yet.

    :param path: the file with what was heard, a JSON document a line.
    :param passed_over: lines that are not looked at.
    """

    def __init__(self, path: pathlib.Path, passed_over: int) -> None:
        self._path = path
        self._passed_over = passed_over

    def new(self) -> list[dict[str, Any]]:
        """Return what was not passed over, the oldest first."""
        lines = self._path.read_text().splitlines()[self._passed_over :]
        return [json.loads(each) for each in lines]

    def skip(self, count: int) -> None:
        """Pass over the oldest of the new ones.

        :param count: how many.
        """
        self._passed_over += count


def listen(test: CloudTestCase) -> Notifications:
    """Start to listen until the test ends.

    :param test: the test that wants to hear.
    """
    place, env = test.cloud.place, test.cloud.env
    directory = test.enterContext(tempfile.TemporaryDirectory())
    path = pathlib.Path(directory, "heard")
    with path.open("wb") as file:
        listener = subprocess.Popen(
            (env.program("python"), "-c", _LISTENER, settings.TRANSPORT_URL),
            stdin=subprocess.DEVNULL,
            stdout=file,
            env=programs.environment(place, env),
        )
    test.addCleanup(listener.wait)
    test.addCleanup(listener.kill)
    test.wait_for(
        "somebody listens to notifications",
        lambda: "listening" in path.read_text(),
        timeout=_PATIENCE,
    )
    # What an earlier test has left in the queue is none of this one's.
    time.sleep(1)
    return Notifications(path, len(path.read_text().splitlines()))
