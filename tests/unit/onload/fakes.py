# SPDX-License-Identifier: Apache-2.0

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
