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


"""The operator's directories of profiles."""

from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root
from sriov_rt.onload import grammar
from sriov_rt.onload.errors import ProfileUnreadable
from sriov_rt.onload.profiles import Text

SUFFIX = ".opf"

#: Of files that only other profiles import.
FRAGMENT = ".opf-fragment"


class Directories:
    """Profiles in directories, the first that has one counts.

    :param root: the host's file system.
    :param paths: absolute, as :mod:`sriov_rt.onload.settings` checked them.
    """

    def __init__(self, root: Root, paths: tuple[str, ...]) -> None:
        self._root = root
        self._paths = paths

    @property
    def places(self) -> tuple[str, ...]:
        """The directories."""
        return self._paths

    def read(self, name: str, *, fragment: bool) -> Text | None:
        """Return the file of a profile, None if there is none.

        :param name: of the profile.
        :param fragment: take a ``.opf-fragment`` too.
        :raises ProfileUnreadable: if it can't be read.
        :raises ValueError: for what can't be a name: none gets this far.
        """
        if not grammar.is_name(name):
            raise ValueError(name)
        suffixes = (SUFFIX, FRAGMENT) if fragment else (SUFFIX,)
        for directory in self._paths:
            for suffix in suffixes:
                path = f"{directory}/{name}{suffix}"
                # An error other than absence shows when it is read.
                if self._root.exists(path.lstrip("/")) is not False:
                    return self._read(path)
        return None

    def _read(self, path: str) -> Text:
        text = self._root.read_text(
            path.lstrip("/"), grammar.MAX_PROFILE, may_be_empty=True
        )
        if isinstance(text, Unknown):
            raise ProfileUnreadable(path, text.reason)
        return Text(path, text)
