# SPDX-License-Identifier: Apache-2.0

"""Traits of the host's resource provider in Placement."""

import contextlib
import dataclasses
import logging
from collections.abc import Set
from typing import Any

from keystoneauth1 import exceptions as ks_exceptions
from keystoneauth1 import loading
from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from sriov_rt.placement import host_traits
from sriov_rt.placement import options
from sriov_rt.service import reconciler

LOG = logging.getLogger(__name__)

#: The first microversion with traits.
MICROVERSION = "1.6"


class PlacementUnreachable(reconciler.NotYet):
    """Keystone or Placement gave no usable answer.

    :param why: a clause.
    :param remedy: a clause.
    """

    def __init__(
        self,
        why: str,
        remedy: str = "check that Keystone and Placement run and that "
        "[placement] names them",
    ) -> None:
        self.why = why
        super().__init__(f"no answer from Placement ({why}); {remedy}")


class PlacementRefused(reconciler.NotYet):
    """Placement refused a request.

    :param request: method and path.
    :param status: HTTP status.
    :param text: Placement's own message.
    """

    def __init__(self, request: str, status: int, text: str) -> None:
        self.request = request
        self.status = status
        self.text = text
        super().__init__(
            f"Placement answered {request} with {status} ({text}); check that "
            "the user in [placement] has the admin or service role"
        )


class ProviderMissing(reconciler.NotYet):
    """Placement does not know the host's resource provider (yet)."""

    def __init__(self, node: str) -> None:
        self.node = node
        super().__init__(
            f"no resource provider '{node}' in Placement; start nova-compute "
            "on this host, or set [agent] node to the name that 'openstack "
            "hypervisor list' shows for it"
        )


class GenerationConflict(reconciler.NotYet):
    """Somebody else changed the provider after it was read."""

    def __init__(self, uuid: str) -> None:
        self.uuid = uuid
        super().__init__(
            f"others keep changing resource provider {uuid}; its traits are "
            "set with the next attempt"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderTraits:
    """A provider's traits, and the generation that they were read at."""

    traits: frozenset[str]
    generation: int


def adapter(conf: cfg.ConfigOpts) -> Adapter | None:
    """Return a client configured by ``[placement]``; None if it is empty.

    :raises keystoneauth1.exceptions.ClientException: if ``[placement]`` is
        incomplete.
    """
    group = options.GROUP
    auth = loading.load_auth_from_conf_options(conf, group)
    if auth is None:
        return None
    session = loading.load_session_from_conf_options(conf, group, auth=auth)
    found: Adapter = loading.load_adapter_from_conf_options(
        conf, group, session=session, auth=auth
    )
    return found


def _words(answer: Any) -> str:
    """Return why Placement refused, the same for each request.

    Its document has a request id, which would make every attempt a new cause.
    """
    text = answer.text
    with contextlib.suppress(ValueError, LookupError, TypeError):
        text = str(answer.json()["errors"][0]["detail"])
    return " ".join(text.split())[:200]


class Placement:
    """Read and set the traits of resource providers.

    Every method raises :class:`PlacementUnreachable` and
    :class:`PlacementRefused`.
    """

    def __init__(self, client: Adapter) -> None:
        self._client = client

    def find(self, name: str) -> str:
        """Return the uuid of the provider with this name.

        :raises ProviderMissing: if there is none.
        """
        found = self._json(
            self._request("GET", "/resource_providers", params={"name": name})
        )
        providers = field(found, "resource_providers", list)
        if not providers:
            raise ProviderMissing(name)
        uuid: str = field(providers[0], "uuid", str)
        return uuid

    def traits(self, uuid: str) -> ProviderTraits:
        """Return the provider's traits."""
        found = self._json(
            self._request("GET", f"/resource_providers/{uuid}/traits")
        )
        return ProviderTraits(
            frozenset(field(found, "traits", list)),
            field(found, "resource_provider_generation", int),
        )

    def create_trait(self, name: str) -> None:
        """Create a trait unless Placement has it."""
        self._request("PUT", f"/traits/{name}")

    def set_traits(self, uuid: str, traits: Set[str], generation: int) -> None:
        """Replace all traits of the provider.

        :param generation: the provider's generation when they were read.
        :raises GenerationConflict: if it has changed since.
        """
        self._replace(uuid, "traits", {"traits": sorted(traits)}, generation)

    def _replace(
        self, uuid: str, what: str, body: dict[str, Any], generation: int
    ) -> None:
        """Replace a provider's traits if its generation has not changed."""
        body = {**body, "resource_provider_generation": generation}
        try:
            self._request(
                "PUT", f"/resource_providers/{uuid}/{what}", json=body
            )
        except PlacementRefused as error:
            if error.status == 409:
                raise GenerationConflict(uuid) from error
            raise

    def _request(
        self,
        method: str,
        path: str,
        microversion: str = MICROVERSION,
        **arguments: Any,
    ) -> Any:
        try:
            answer = self._client.request(
                path,
                method,
                microversion=microversion,
                raise_exc=False,
                # keystoneauth1's own semaphore waits for a time of the wall
                # clock: for days if the clock was set back by days.
                rate_semaphore=contextlib.nullcontext(),
                **arguments,
            )
        except ks_exceptions.Unauthorized as error:
            # The error's own text has the request id, which always differs.
            raise PlacementUnreachable(
                "Keystone refuses the user or the password: 401",
                "correct them in [placement], and restart sriov-rt-agent",
            ) from error
        except ks_exceptions.ClientException as error:
            raise PlacementUnreachable(str(error)) from error
        if answer.status_code >= 500:
            raise PlacementUnreachable(
                f"{method} {path}: {answer.status_code}"
            )
        if answer.status_code >= 300:
            raise PlacementRefused(
                f"{method} {path}", answer.status_code, _words(answer)
            )
        return answer

    def _json(self, answer: Any) -> Any:
        try:
            return answer.json()
        except ValueError as error:
            raise PlacementUnreachable(f"no JSON: {error}") from error


def field(found: Any, name: str, kind: type) -> Any:
    """Return a member of an answer.

    :raises PlacementUnreachable: if it is missing, or of another kind.
    """
    value = found.get(name) if isinstance(found, dict) else None
    if not isinstance(value, kind):
        raise PlacementUnreachable(f"'{name}' is missing in its answer")
    return value


#: Attempts in a row to set the traits of a provider that others change, before
#: the agent waits. nova-compute writes to it once a minute.
ATTEMPTS = 4


class Provider:
    """The resource provider of one host.

    :param client: reads and sets the traits.
    :param host: Nova's name of the host, for the log.
    """

    def __init__(self, client: Placement, host: str, node: str) -> None:
        self._client = client
        self._host = host
        self._node = node

    def set_traits(self, desired: frozenset[str]) -> None:
        """Set our traits of the provider to exactly these.

        :param desired: names that begin with one of
            :data:`host_traits.PREFIXES`.
        :raises NotYet: if that is impossible now; trying again may help.
        """
        try:
            uuid = self._client.find(self._node)
        except ProviderMissing:
            if desired:
                raise
            # Without a provider there are no traits of ours, as desired.
            return
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._set_traits(uuid, desired)
            except GenerationConflict:
                if attempt == ATTEMPTS:
                    raise
                LOG.debug("provider %s changed; reading it again", uuid)
            else:
                return

    def _set_traits(self, uuid: str, desired: frozenset[str]) -> None:
        there = self._client.traits(uuid)
        merged = host_traits.merged(there.traits, desired)
        if merged == there.traits:
            return
        added, removed = merged - there.traits, there.traits - merged
        for name in sorted(added):
            self._client.create_trait(name)
        self._client.set_traits(uuid, merged, there.generation)
        LOG.info(
            "traits set: host=%s node=%s provider=%s added=%s removed=%s",
            self._host,
            self._node,
            uuid,
            ",".join(sorted(added)) or "none",
            ",".join(sorted(removed)) or "none",
        )
