# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.


"""What the tests of Onload share."""

from sriov_rt.onload import grammar
from sriov_rt.onload.profiles import Text


class FakeDirectories:
    """Profiles in memory that records what was read.

    :param files: name with its suffix to text.
    """

    places = ("/profiles",)

    def __init__(self, **files: str) -> None:
        self.files = {
            name.replace("__fragment", ".opf-fragment").replace("_", "-"): text
            for name, text in files.items()
        }
        self.reads: list[str] = []

    def read(self, name: str, *, fragment: bool) -> Text | None:
        """Return a profile."""
        assert grammar.is_name(name)
        self.reads.append(name)
        for suffix in ("", ".opf-fragment") if fragment else ("",):
            if name + suffix in self.files:
                path = f"/profiles/{name}{suffix or '.opf'}"
                return Text(path, self.files[name + suffix])
        return None


#: Names that must reach no file system call.
HOSTILE_NAMES = (
    "",
    ".",
    "..",
    "../../etc/passwd",
    "/etc/passwd",
    "$HOME/x",
    "~/x",
    "latency best",
    "latency\tbest",
    "latency\n",
    "latency\0.opf",
    "lat\x1bency",
    "'latency'",
    '"latency"',
    "latency;id",
    "$(id)",
    "`id`",
    "a..b",
    "-v",
    ".hidden",
    "latency/../x",
    "latency.",
    "lätency",
    "x" * 200,
)
