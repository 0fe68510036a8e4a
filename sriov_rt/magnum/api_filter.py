# SPDX-License-Identifier: Apache-2.0

"""Paste filter of magnum-api that refuses impossible nodegroups with 400.

Magnum creates nodegroups asynchronously: the driver refuses one only after the
request was accepted. A request that this filter cannot judge passes, and the
driver judges every nodegroup again.
"""

import io
import json
import logging
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from magnum import objects
from magnum.common import context as magnum_context
from magnum.drivers.common import driver as magnum_driver
from oslo_utils import uuidutils

from sriov_rt.magnum import driver
from sriov_rt.magnum import errors

LOG = logging.getLogger(__name__)

#: Path of the only request that is checked, the creation of a nodegroup.
_PATH = re.compile(r"/v1/clusters/([^/]{1,255})/nodegroups/?")

#: Largest body in bytes that is read; Magnum judges larger ones.
MAX_BODY = 256 * 1024

Start = Callable[..., Any]
App = Callable[[dict[str, Any], Start], Iterable[bytes]]


def factory(
    global_conf: Mapping[str, str], **local_conf: str
) -> Callable[[App], App]:
    """Return the filter for paste."""
    return Filter


class Filter:
    """Refuse impossible nodegroups before they are accepted.

    :param app: the next application in the pipeline, behind authtoken.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    def __call__(
        self, environ: dict[str, Any], start_response: Start
    ) -> Iterable[bytes]:
        """Answer with 400, or let the request pass."""
        found = _PATH.fullmatch(environ.get("PATH_INFO", ""))
        if environ.get("REQUEST_METHOD") == "POST" and found:
            try:
                why = _why_not(environ, found[1])
            except Exception:
                # Magnum answers the request, whatever went wrong here.
                LOG.info("The nodegroup was not checked early", exc_info=True)
                why = None
            if why is not None:
                return _refuse(start_response, why)
        return self._app(environ, start_response)


def _why_not(environ: dict[str, Any], cluster: str) -> str | None:
    body = _body(environ)
    if not isinstance(body, dict):
        return None
    context = _context(environ)
    find = (
        objects.Cluster.get_by_uuid
        if uuidutils.is_uuid_like(cluster)
        else objects.Cluster.get_by_name
    )
    found = find(context, cluster)
    ours = magnum_driver.Driver.get_driver_for_cluster(context, found)
    if not isinstance(ours, driver.Driver):
        return None
    try:
        ours.check_nodegroup(context, found, _nodegroup(context, found, body))
    except errors.NodegroupRefused as error:
        return errors.sentence(str(error))
    return None


def _body(environ: dict[str, Any]) -> Any:
    """Return the body, and restore it for the next reader."""
    length = int(environ.get("CONTENT_LENGTH") or 0)
    if not 0 < length <= MAX_BODY:
        return None
    data = environ["wsgi.input"].read(length)
    environ["wsgi.input"] = io.BytesIO(data)
    return json.loads(data)


def _context(environ: Mapping[str, Any]) -> Any:
    """Return the user's context, built as Magnum's own hook does."""
    return magnum_context.make_context(
        auth_token=environ.get("HTTP_X_AUTH_TOKEN"),
        auth_token_info=environ.get("keystone.token_info"),
        user_name=environ.get("HTTP_X_USER_NAME"),
        user_id=environ.get("HTTP_X_USER_ID"),
        project_name=environ.get("HTTP_X_PROJECT_NAME"),
        project_id=environ.get("HTTP_X_PROJECT_ID"),
        roles=environ.get("HTTP_X_ROLES", "").split(","),
    )


def _nodegroup(
    context: Any, cluster: Any, body: Mapping[str, Any]
) -> objects.NodeGroup:
    """Return the nodegroup of a request, as Magnum would create it."""
    labels = body.get("labels")
    if labels is None:
        labels = cluster.labels
    elif body.get("merge_labels"):
        labels = {**cluster.labels, **labels}
    found = objects.NodeGroup(
        context,
        uuid=uuidutils.generate_uuid(),
        name=body.get("name") or "",
        flavor_id=body.get("flavor_id") or cluster.flavor_id,
        labels=labels,
        node_count=1,
        status=None,
        is_default=False,
    )
    for name in ("node_labels", "node_taints"):
        if name in found.fields:
            setattr(found, name, body.get(name))
    return found


def _refuse(start_response: Start, why: str) -> list[bytes]:
    """Answer as Magnum does (api/middleware/parsable_error.py)."""
    fault = {
        "status": 400,
        "code": "client",
        # python-magnumclient shows only the title of an error.
        "title": why,
        "detail": why,
        "links": [],
        "request_id": "",
    }
    data = json.dumps({"errors": [fault]}).encode()
    headers = [
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(data))),
    ]
    start_response("400 Bad Request", headers)
    return [data]
