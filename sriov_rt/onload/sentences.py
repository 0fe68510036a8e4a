# SPDX-License-Identifier: Apache-2.0

"""Sentences of Onload's Reasons, code by code."""

import types
from collections.abc import Mapping
from typing import Any

from sriov_rt import reason as reasons
from sriov_rt.reason import Reason

#: Code to the operator's sentence, with its fields in braces. Nova cuts a
#: fault at 255 characters, so the remedy comes early.
SENTENCES: Mapping[str, str] = types.MappingProxyType(
    {
        "onload_unconfigured": (
            "Onload is requested and [onload] {option} is not set on the "
            "host; set it in sriov-rt.conf"
        ),
        "onload_refused": "{problem}",
        "onload_device_missing": (
            "{device} is not on the host; load Onload's modules ('onload_tool "
            "reload'), or take it out of [onload] devices"
        ),
        "onload_init_static": (
            "{init} of the image is linked statically, which no preload "
            "reaches; use an image whose programs are linked to glibc"
        ),
        "onload_musl": (
            "the image uses musl ({found}) and Onload needs glibc; use an "
            "image with glibc, such as Debian's or Fedora's"
        ),
        "onload_other_architecture": (
            "{init} of the image is {architecture}, {library} is {wanted}; "
            "use an image of that architecture"
        ),
        "onload_glibc_floor": (
            "{library} needs glibc {floor}, the image has {glibc}; use a "
            "newer image, or an Onload built on an older system"
        ),
        "onload_libc_missing": (
            "the image has no libc.so.6 where its loader looks; use an "
            "image with glibc"
        ),
        "onload_init_unreadable": (
            "{init} of the image can't be read ({problem}); check that the "
            "image has it and that it is a program"
        ),
        "onload_image_unreadable": (
            "the container's image can't be read ({problem}); check that "
            "nova-compute may read what it has mounted"
        ),
        "onload_library_unreadable": (
            "{library} can't be read on the host ({problem}); install "
            "Onload, or correct [onload] library"
        ),
        "onload_mount_taken": (
            "the domain mounts {source} at {target}; take it out, or set "
            "[onload] inside to another directory"
        ),
    }
)


def reason(code: str, **fields: Any) -> Reason:
    """Return the Reason of a code, its sentence filled in.

    :param code: a key of :data:`SENTENCES`.
    :param fields: fields of the sentence, and any others.
    """
    return reasons.filled(code, SENTENCES[code], fields)
