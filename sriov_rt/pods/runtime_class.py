# SPDX-License-Identifier: Apache-2.0

"""RuntimeClasses whose containers cannot preload a library. Pure."""

import re
from collections.abc import Mapping
from typing import Any

#: A word in the name of a class or handler whose containers have their own
#: kernel, and so cannot use the node's devices and library. A word has no
#: letter or digit next to it, as in kata-qemu, kata.qemu, kata_fc and
#: io.containerd.kata.v2.
_SANDBOX = re.compile(
    r"(?<![a-z0-9])(?:kata(?:containers?)?[0-9]*|gvisor|runsc)(?![a-z0-9])",
    re.IGNORECASE,
)

#: A word in the name of a handler whose containers share the node's kernel,
#: even if their class states an overhead.
_SHARED = re.compile(r"(?<![a-z0-9])(?:runc|crun)(?![a-z0-9])", re.IGNORECASE)

#: A word in the name of a class or handler of Kata.
_KATA = re.compile(
    r"(?<![a-z0-9])kata(?:containers?)?[0-9]*(?![a-z0-9])", re.IGNORECASE
)

KIND = "RuntimeClass"


def is_kata(name: str) -> bool:
    """Return whether a class or handler with this name is Kata's."""
    return _KATA.search(name) is not None


def why_not(
    spec: Mapping[str, Any], given: Mapping[str, Any] | None
) -> str | None:
    """Return why nothing can be preloaded into a pod's containers, or None.

    Kubernetes copies a class's overhead, the resources of a sandbox besides
    its containers, into the pods that it admits.

    :param given: the RuntimeClass object; None if it is unknown.
    """
    name = spec.get("runtimeClassName")
    handler: Any = None
    overhead = spec.get("overhead")
    if given is not None:
        if problem := _why_not_its(given, name):
            return problem
        handler = given.get("handler")
        overhead = overhead or given.get("overhead")
    for what, text in (("runtime class", name), ("handler", handler)):
        if isinstance(text, str) and _SANDBOX.search(text):
            return (
                f"containers of {what} {text[:80]!r} have a kernel of their "
                "own, into which nothing can be preloaded"
            )
    if overhead and not (isinstance(handler, str) and _SHARED.search(handler)):
        return (
            "its runtime class has an overhead, as those have whose "
            "containers have a kernel of their own, into which nothing can "
            "be preloaded; if its handler is runc or crun, give the "
            "RuntimeClass by --runtime-class"
        )
    return None


def _why_not_its(given: Mapping[str, Any], name: Any) -> str | None:
    """Return why an object is not the RuntimeClass of this name."""
    if given.get("kind") != KIND:
        return f"what is given as its {KIND} is none"
    metadata = given.get("metadata")
    own = metadata.get("name") if isinstance(metadata, dict) else None
    if own != name:
        return (
            f"its runtime class is {str(name)[:80]!r}, and the one that is "
            f"given {str(own)[:80]!r}"
        )
    return None
