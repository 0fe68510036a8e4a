# SPDX-License-Identifier: Apache-2.0

"""The gRPC server of hooks, on a unix socket."""

import logging
import os
import pathlib
import socket
import stat
from collections.abc import Callable
from collections.abc import Mapping
from concurrent import futures
from typing import Any

import grpc

from sriov_rt import exceptions
from sriov_rt.kubevirt import contract
from sriov_rt.kubevirt.errors import CallRejected
from sriov_rt.parse.text import masked

LOG = logging.getLogger(__name__)

#: Longest message in and out, bytes; the latter is the default of clients.
MAX_MESSAGE = 4 * 1024 * 1024

#: Concurrent calls: a pod makes one, a node a few.
_THREADS = 4

#: Calls that may wait in addition.
_MOST_CALLS = 64

#: The longest sentence, in characters: gRPC's clients accept 8 KiB of
#: metadata, in which a character may take nine bytes.
_MAX_SENTENCE = 800

#: Longest path, bytes: sockaddr_un.sun_path has 108 with the final NUL.
_MAX_PATH = 107

#: Seconds for calls to end when the server is stopped.
_GRACE_S = 5.0

#: Takes the bytes of a request, returns those of a response.
Call = Callable[[bytes], bytes]


class SocketUnusable(exceptions.SriovRtError):
    """No server can listen on a path.

    :param problem: a clause, with what to do.
    """

    def __init__(self, path: pathlib.Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


class _Methods(grpc.GenericRpcHandler):  # type: ignore[misc]
    """The methods of a server; any other call gets their list as error."""

    def __init__(self, calls: Mapping[str, Call]) -> None:
        self._known = {
            name: grpc.unary_unary_rpc_method_handler(_handler(name, call))
            for name, call in calls.items()
        }

    def service(self, details: Any) -> Any:
        found = self._known.get(details.method)
        if found is not None:
            return found
        return grpc.unary_unary_rpc_method_handler(self._unknown(details))

    def _unknown(self, details: Any) -> Any:
        sentence = (
            f"sriov-rt has no {details.method[:200]} but "
            f"{', '.join(self._known)}; install the sriov-rt that knows this "
            "KubeVirt"
        )

        def answer(_: bytes, context: Any) -> bytes:
            LOG.error("%s", sentence)
            context.abort(grpc.StatusCode.UNIMPLEMENTED, sentence)
            raise AssertionError("abort raises")

        return answer


def _handler(name: str, call: Call) -> Any:
    def answer(data: bytes, context: Any) -> bytes:
        try:
            return call(data)
        except CallRejected as error:
            LOG.error("%s rejected: %s", name, error)
            code, sentence = grpc.StatusCode.INVALID_ARGUMENT, str(error)
        except exceptions.SriovRtError as error:
            code, sentence = grpc.StatusCode.FAILED_PRECONDITION, str(error)
        except Exception as error:
            LOG.exception("%s failed", name)
            code = grpc.StatusCode.INTERNAL
            sentence = (
                f"sriov-rt failed: {type(error).__name__}: {error}; its log "
                "has the traceback for a bug report"
            )
        context.abort(code, _line(sentence))
        raise AssertionError("abort raises")

    return answer


def _line(sentence: str) -> str:
    """Return a sentence as one line, cut to gRPC's limit."""
    text = " ".join(exceptions.plain(sentence).split())
    if len(text) > _MAX_SENTENCE:
        text = f"{text[: _MAX_SENTENCE - 3]}..."
    return masked(text)


def start(path: pathlib.Path, calls: Mapping[str, Call], mode: int) -> Any:
    """Return a server that listens on a socket.

    :param path: path of the socket; its directory has to exist.
    :param calls: full name of a method to the function that answers it.
    :raises SocketUnusable: if it cannot listen there.
    """
    _prepare(path)
    server = grpc.server(
        futures.ThreadPoolExecutor(_THREADS),
        handlers=(_Methods(calls),),
        options=(
            ("grpc.max_receive_message_length", MAX_MESSAGE),
            ("grpc.max_send_message_length", MAX_MESSAGE),
            ("grpc.so_reuseport", 0),
        ),
        maximum_concurrent_rpcs=_MOST_CALLS,
    )
    mask = os.umask(0o777 & ~mode)
    try:
        server.add_insecure_port(f"unix:{path}")
    except RuntimeError as error:
        raise SocketUnusable(
            path, f"cannot listen ({error}); see its directory's owner"
        ) from None
    finally:
        os.umask(mask)
    server.start()
    LOG.info("listening on %s for %s", path, ", ".join(calls))
    return server


def _prepare(path: pathlib.Path) -> None:
    """Remove a stale socket of an earlier server.

    :raises SocketUnusable: if the path is in use, or is not a socket.
    """
    if len(os.fsencode(path)) > _MAX_PATH:
        raise SocketUnusable(path, f"give a path of {_MAX_PATH} bytes at most")
    try:
        if not stat.S_ISDIR(path.parent.lstat().st_mode):
            raise SocketUnusable(
                path, "its directory is a link or a file; mount one there"
            )
        kind = path.lstat().st_mode
    except FileNotFoundError:
        if not path.parent.exists():
            raise SocketUnusable(
                path, "its directory is missing; mount one there"
            ) from None
        return
    if not stat.S_ISSOCK(kind):
        raise SocketUnusable(
            path,
            "a link or a file has its name; KubeVirt takes a socket"
            " alone; remove it",
        )
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(os.fspath(path))
        except OSError:
            path.unlink()
        else:
            raise SocketUnusable(path, "another server listens there; stop it")


def run(
    server: Any,
    is_stopped: Callable[[float], bool],
    sweep: Callable[[], None] | None,
    every_s: float,
) -> None:
    """Serve until it is stopped, then wait for calls to end.

    :param server: server from :func:`start`.
    :param is_stopped: waits for that many seconds at most, and returns
        whether a signal has arrived.
    :param sweep: called at once, and then at intervals of ``every_s``.
    """
    while True:
        if sweep is not None:
            _try(sweep)
        if is_stopped(every_s):
            break
    server.stop(_GRACE_S).wait()


def _try(sweep: Callable[[], None]) -> None:
    try:
        sweep()
    except exceptions.SriovRtError as error:
        LOG.error("%s", error)
    except Exception:
        LOG.exception("VFs could not be inspected")


def domain_calls(mutate_domain: Call) -> Mapping[str, Call]:
    """Return the methods of a domain hook."""
    return {f"/{contract.DOMAIN_SERVICE}/MutateDomain": mutate_domain}


def node_calls(execute: Call) -> Mapping[str, Call]:
    """Return the methods of a node hook."""
    return {f"/{contract.NODE_SERVICE}/ExecuteNodeHook": execute}
