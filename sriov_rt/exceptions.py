# SPDX-License-Identifier: Apache-2.0

"""The base of every error that sriov-rt raises."""

import re

_ERRNO = re.compile(r"\[Errno -?[0-9]+\] ?")


class SriovRtError(Exception):
    """An error whose sentence says what the operator should do next.

    Subclasses are named for that next step and carry the sentence's values as
    attributes, so that callers never parse the sentence.
    """


def plain(error: BaseException | str) -> str:
    """Return a sentence without the numbers that Python puts before errors.

    :param error: such as ``[Errno 111] Connection refused``.
    """
    return _ERRNO.sub("", str(error))
