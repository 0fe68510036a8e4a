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

"""The base of every error that sriov-rt raises."""

import re

_ERRNO = re.compile(r"\[Errno -?[0-9]+\] ?")


class SriovRtError(Exception):
    """An error whose sentence says what the operator does next.

    Subclasses are named for that next step and carry what they speak of as
    attributes, so that callers never parse the sentence.
    """


def plain(error: BaseException | str) -> str:
    """Return a sentence without the numbers that Python puts before errors.

    :param error: such as ``[Errno 111] Connection refused``.
    """
    return _ERRNO.sub("", str(error))
