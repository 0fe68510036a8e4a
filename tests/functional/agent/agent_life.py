# SPDX-License-Identifier: Apache-2.0

"""A real agent that Prometheus scrapes, on a host of files.

Run as root: ``python -m tests.functional.agent.agent_life FILE`` records what
a scraper sees of one that runs, fails to plug a port once, is killed and
starts again, as series in promtool's notation (``agent_life.yaml`` is one). A
failed scrape ends each series of its target, as Prometheus does.
"""

import dataclasses
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator

import yaml

from sriov_rt.facts import certificate
from sriov_rt.host import latency
from sriov_rt.host.root import BOOT_ID
from tests.testbed.waiting import wait_for
from tests.unit.host import trees

#: Seconds between two scrapes of a recording.
STEP_S = 5

#: Scrapes until the port fails, the agent is killed, starts again and ends.
FAILS, DIES, STARTS, ENDS = 6, 18, 66, 90

HOST = "rt-1"

_CONFIGURATION = """
[DEFAULT]
host = rt-1
transport_url = fake://
[agent]
root = {root}
observe_interval = 5
publish_traits = false
[labels]
store =
[metrics]
enabled = true
port = {port}
[vif]
parents = physnet1:none0
"""

_PLUG = (
    *("vif", "plug", "--port", "6b1d4b0e-6f0e-4f0e-9d0e-000000000001"),
    *("--network", "physnet1", "--kind", "macvlan", "--owner", "guest-1"),
)

_SAMPLE = re.compile(r"^(sriov_rt_\w+)(?:\{(.*)\})? (\S+)", re.MULTILINE)


class Life:
    """An agent whose host has a certificate that was withdrawn.

    :param place: a directory, for the host's files among others.
    :param port: of the endpoint, on the loopback.
    """

    def __init__(self, place: pathlib.Path, port: int) -> None:
        self._place = place
        self.target = f"127.0.0.1:{port}"
        self._configuration = place / "sriov-rt.conf"
        tree = trees.realtime_host(place / "host")
        withdrawn = dataclasses.replace(
            trees.CERTIFICATE,
            withdrawn="CPU 2 had a latency of 99 µs",
            withdrawn_at=time.time(),
            expires_at=trees.CERTIFICATE.issued_at + 365 * 86400,
        )
        tree.write(latency.CERTIFICATE, certificate.to_bytes(withdrawn))
        # It is the host that runs: of a copy nobody knows the ports.
        tree.write(BOOT_ID, pathlib.Path("/", BOOT_ID).read_bytes())
        self._run = tree.path / "run"
        self._run.mkdir(exist_ok=True)
        self._configuration.write_text(
            _CONFIGURATION.format(root=tree.path, port=port)
        )
        self._agent: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait for its first facts."""
        with (self._place / "agent.log").open("ab") as log:
            self._agent = subprocess.Popen(
                self._command("sriov_rt.cmd.agent"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_for(
            "the agent has facts",
            lambda: "sriov_rt_host_ready" in (self.scrape() or ""),
            timeout=120,
        )

    def kill(self) -> None:
        """Kill it by SIGKILL."""
        if self._agent is not None:
            self._agent.kill()
            self._agent.wait()

    def fail(self) -> None:
        """Plug a port for which there is no parent."""
        command = self._command("sriov_rt.cmd.main", *_PLUG)
        inside = f'mount --bind {self._run} /run && exec "$@"'
        done = subprocess.run(
            ("unshare", "--mount", "sh", "-c", inside, "sh", *command),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode != 2 or "no parent" not in done.stderr:
            raise RuntimeError(done.stderr)

    def scrape(self) -> str | None:
        """Return what its endpoint has; None if it does not answer."""
        url = f"http://{self.target}/metrics"
        try:
            with urllib.request.urlopen(url, timeout=STEP_S) as answer:
                return str(answer.read().decode())
        except OSError:
            return None

    def _command(self, module: str, *words: str) -> tuple[str, ...]:
        named = ("--config-file", str(self._configuration))
        return (sys.executable, "-m", module, *words, *named)


def record(life: Life) -> Iterator[str | None]:
    """Yield each scrape of an agent's life."""
    acts = {FAILS: life.fail, DIES: life.kill, STARTS: life.start}
    life.start()
    began = time.monotonic()
    for number in range(ENDS):
        acts.get(number, lambda: None)()
        time.sleep(max(0.0, began + number * STEP_S - time.monotonic()))
        yield life.scrape()
    life.kill()


def series(
    scrapes: list[str | None], began: float
) -> Iterator[dict[str, str]]:
    """Yield the series of scrapes in promtool's notation.

    :param began: when the first one was, Unix time: promtool's time is 0
        then.
    """
    found: dict[str, list[str]] = {
        _named("up", ""): [str(int(each is not None)) for each in scrapes]
    }
    for number, text in enumerate(scrapes):
        for name, labels, value in _SAMPLE.findall(text or ""):
            at = float(value)
            if name.endswith("_timestamp_seconds"):
                at = round(at - began, 1)
            values = found.setdefault(_named(name, labels), [])
            values += ["_"] * (number - len(values))
            values.append(f"{at:.10g}")
    for name, values in sorted(found.items()):
        values += ["_"] * (len(scrapes) - len(values))
        for number, (before, value) in enumerate(itertools.pairwise(values)):
            if value == "_" and before not in ("_", "stale"):
                values[number + 1] = "stale"
        yield {"series": name, "values": " ".join(_packed(values))}


def _named(name: str, labels: str) -> str:
    common = f'instance="{HOST}",job="sriov-rt"'
    return f"{name}{{{','.join(filter(None, (common, labels)))}}}"


def _packed(values: list[str]) -> Iterator[str]:
    """Yield values, with equal ones that follow each other as one."""
    for value, group in itertools.groupby(values):
        more = len(list(group)) - 1
        yield f"{value}x{more}" if more and value != "stale" else value
        # promtool's "_xN" are N samples, and "1xN" are one more.
        if more and value == "_":
            yield "_"


def main() -> None:
    """Write the recording."""
    (output,) = sys.argv[1:]
    with tempfile.TemporaryDirectory() as place:
        life = Life(pathlib.Path(place), int(os.environ.get("PORT", "9836")))
        scrapes = []
        began = 0.0
        try:
            for each in record(life):
                began = began or time.time()
                scrapes.append(each)
        finally:
            life.kill()
    document = {
        "step_s": STEP_S,
        "series": list(series(scrapes, began)),
    }
    pathlib.Path(output).write_text(
        yaml.safe_dump(document, width=10_000, sort_keys=False)
    )


if __name__ == "__main__":
    main()
