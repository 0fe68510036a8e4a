# SPDX-License-Identifier: Apache-2.0

"""The cluster driver ``sriov_rt`` of Magnum, over that of magnum-capi-helm."""

import contextlib
import pathlib
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import requests
import yaml
from keystoneauth1 import exceptions as ks_exceptions
from keystoneauth1.adapter import Adapter
from magnum.common import clients
from magnum.common import context as magnum_context
from magnum.common import exception
from magnum.common import keystone
from magnum.objects import fields
from magnum_capi_helm import conf
from magnum_capi_helm import driver
from magnum_capi_helm import driver_utils
from magnum_capi_helm.common import capi_monitor
from oslo_log import log as logging

from sriov_rt import exceptions
from sriov_rt import request
from sriov_rt.magnum import addons
from sriov_rt.magnum import cloud
from sriov_rt.magnum import errors
from sriov_rt.magnum import helm
from sriov_rt.magnum import hosts
from sriov_rt.magnum import nodegroup
from sriov_rt.magnum import operation
from sriov_rt.magnum import options
from sriov_rt.magnum import pod_networks
from sriov_rt.magnum import resource_set
from sriov_rt.magnum.nodegroup import Nodegroup
from sriov_rt.magnum.nodegroup import Settings
from sriov_rt.magnum.nodegroup import why_not_flavor

LOG = logging.getLogger(__name__)
CONF = conf.CONF

#: Objects of Magnum.
Object = Any

#: Errors of a request to the management cluster: it is down, it refuses, or
#: its answer is not one of a Kubernetes API server.
_NO_ANSWER = (
    requests.RequestException,
    OSError,
    yaml.YAMLError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)

_AFTER_NODEGROUP = (
    "delete the nodegroup with 'openstack coe nodegroup delete', or correct "
    "it and use 'openstack coe cluster resize --nodegroup'; both bring the "
    "cluster back to UPDATE_COMPLETE"
)

_AFTER_UPDATE = (
    "correct it and use 'openstack coe cluster resize', which brings the "
    "cluster back to UPDATE_COMPLETE"
)

_AFTER_CREATE = "delete the cluster, correct it and create it again"

_AFTER_DELETE = "delete the cluster again"


class Refused(exception.MagnumException):  # type: ignore[misc]
    """An operation that was refused or failed, with its sentence."""

    def __init__(self, text: str, remedy: str) -> None:
        # Magnum formats every message.
        message = errors.sentence(text, remedy).replace("%", "%%")
        super().__init__(message)


class Monitor(capi_monitor.CAPIMonitor):  # type: ignore[misc]
    """Health of a cluster, read from the management cluster."""

    def poll_health_status(self) -> None:
        """Set the cluster's health; UNKNOWN without a usable answer."""
        if not driver_utils.chart_release_name(self.cluster):
            self.data["health_status"] = fields.ClusterHealthStatus.UNHEALTHY
            self.data["health_status_reason"] = {
                "cluster": "The cluster was never built. Delete it."
            }
            return
        try:
            super().poll_health_status()
        except _NO_ANSWER as error:
            LOG.warning(
                "Health of cluster %s: %s", self.cluster.uuid, _unusable(error)
            )
            self.data["health_status"] = fields.ClusterHealthStatus.UNKNOWN
            self.data["health_status_reason"] = {
                "cluster": errors.sentence(str(_unusable(error)))
            }


class Driver(driver.Driver):  # type: ignore[misc]
    """Cluster driver for nodegroups with realtime or fast flavors.

    Magnum makes a new instance for each operation.
    """

    def __init__(self) -> None:
        super().__init__()
        options.register(CONF)
        self._helm_client = helm.Client()
        self._operation: operation.Operation | None = None
        self._entries: Mapping[str, Mapping[str, Any]] = {}

    @property
    def provides(self) -> list[dict[str, str]]:
        """Nothing: a template selects this driver by its name alone."""
        return []

    def get_monitor(self, context: Any, cluster: Object) -> Monitor:
        """Return a monitor that can judge a cluster without a release."""
        return Monitor(context, cluster)

    def check_nodegroup(
        self, context: Any, cluster: Object, group: Object
    ) -> None:
        """Check that a nodegroup can be rendered; hosts are not judged.

        :param group: need not be in the database.
        :raises NodegroupRefused: if it cannot be.
        """
        self._begin(context, cluster, [group]).render(_group(group))

    # Operations of the conductor.

    def create_cluster(
        self, context: Any, cluster: Object, cluster_create_timeout: int
    ) -> None:
        """Create a cluster; nothing is made if a nodegroup is refused."""
        with _sentences(cluster, _AFTER_CREATE):
            groups = _workers(cluster.nodegroups)
            under_way = self._begin(context, cluster, groups)
            master = under_way.flavor("master", cluster.master_flavor_id)
            problems = why_not_flavor(master)
            if problems:
                raise errors.NodegroupRefused("master", problems)
            warnings = self._judge(under_way, groups)
            super().create_cluster(context, cluster, cluster_create_timeout)
            _note(groups, warnings)

    def update_cluster(
        self,
        context: Any,
        cluster: Object,
        scale_manager: Any = None,
        rollback: bool = False,
    ) -> None:
        """Update a cluster after a change of its default nodegroup's size."""
        with _sentences(cluster, _AFTER_UPDATE):
            resized = [cluster.default_ng_worker]
            under_way = self._begin(context, cluster, resized)
            warnings = self._judge(under_way, resized, growth_alone=True)
            super().update_cluster(context, cluster, scale_manager, rollback)
            _note(resized, warnings)

    def resize_cluster(
        self,
        context: Any,
        cluster: Object,
        resize_manager: Any,
        node_count: int,
        nodes_to_remove: Any,
        nodegroup: Object = None,
    ) -> None:
        """Resize a nodegroup; one that shrinks is never refused."""
        with _sentences(cluster, _AFTER_UPDATE):
            resized = _workers([nodegroup or cluster.default_ng_worker])
            under_way = self._begin(context, cluster, resized)
            warnings = self._judge(under_way, resized, growth_alone=True)
            super().resize_cluster(
                context,
                cluster,
                resize_manager,
                node_count,
                nodes_to_remove,
                nodegroup,
            )
            _note(resized, warnings)

    def upgrade_cluster(
        self,
        context: Any,
        cluster: Object,
        cluster_template: Object,
        max_batch_size: int,
        nodegroup: Object,
        scale_manager: Any = None,
        rollback: bool = False,
    ) -> None:
        """Move a cluster to another template; no nodegroup is added."""
        with _sentences(cluster, _AFTER_UPDATE):
            groups = _workers(cluster.nodegroups)
            under_way = self._begin(context, cluster, [])
            # The upgrade puts every nodegroup to UPDATE_IN_PROGRESS.
            out = {
                each.uuid: each.status
                for each in groups
                if under_way.is_left_out(_group(each))
            }
            under_way.leave_out(out)
            self._judge(
                under_way,
                [each for each in groups if each.uuid not in out],
            )
            super().upgrade_cluster(
                context,
                cluster,
                cluster_template,
                max_batch_size,
                nodegroup,
                scale_manager,
                rollback,
            )
            for each in cluster.nodegroups:
                if each.uuid in out:
                    each.status = out[each.uuid]
                    each.save()

    def create_nodegroup(
        self, context: Any, cluster: Object, nodegroup: Object
    ) -> None:
        """Create a nodegroup, unless it is refused."""
        with _sentences(cluster, _AFTER_NODEGROUP):
            under_way = self._begin(context, cluster, [nodegroup])
            owner = _owner(cluster, nodegroup)
            if owner.uuid != nodegroup.uuid:
                raise errors.NodegroupRefused(
                    nodegroup.name,
                    [
                        f"its name is that of {owner.name!r} in the chart; "
                        "choose another name"
                    ],
                )
            warnings = self._judge(under_way, [nodegroup])
            super().create_nodegroup(context, cluster, nodegroup)
            _note([nodegroup], warnings)

    def update_nodegroup(
        self, context: Any, cluster: Object, nodegroup: Object
    ) -> None:
        """Update a nodegroup, unless it is refused."""
        with _sentences(cluster, _AFTER_NODEGROUP):
            updated = _workers([nodegroup])
            under_way = self._begin(context, cluster, updated)
            warnings = self._judge(under_way, updated)
            super().update_nodegroup(context, cluster, nodegroup)
            _note(updated, warnings)

    def delete_nodegroup(
        self, context: Any, cluster: Object, nodegroup: Object
    ) -> None:
        """Delete a nodegroup, whatever its flavor is."""
        with _sentences(cluster, _AFTER_NODEGROUP):
            # Of two nodegroups with one chart name the older one was built.
            owner = _owner(cluster, nodegroup)
            gone = [owner] if owner.uuid == nodegroup.uuid else []
            self._begin(context, cluster, [], gone)
            super().delete_nodegroup(context, cluster, nodegroup)

    def delete_cluster(self, context: Any, cluster: Object) -> None:
        """Delete a cluster, whatever its flavors are."""
        with _sentences(cluster, _AFTER_DELETE):
            super().delete_cluster(context, cluster)

    def update_cluster_status(
        self, context: Any, cluster: Object, *args: Any, **kwargs: Any
    ) -> None:
        """Update the status; without an answer it stays until the next."""
        try:
            super().update_cluster_status(context, cluster, *args, **kwargs)
        except _NO_ANSWER as error:
            text = errors.sentence(str(_unusable(error)))
            LOG.warning("Status of cluster %s: %s", cluster.uuid, text)
            if cluster.status_reason != text:
                cluster.status_reason = text
                cluster.save()
            return
        if (cluster.status_reason or "").startswith(errors.NO_MANAGEMENT):
            cluster.status_reason = None
            cluster.save()

    # Seams of magnum-capi-helm.

    def _update_helm_release(
        self,
        context: Any,
        cluster: Object,
        nodegroups: Sequence[Object] | None = None,
    ) -> None:
        groups = list(cluster.nodegroups if nodegroups is None else nodegroups)
        under_way = self._operation or self._begin(context, cluster, [])
        self._entries = under_way.entries(
            [_group(each) for each in _workers(groups)]
        )
        self._carry_addons(context, cluster)
        super()._update_helm_release(context, cluster, groups)

    def _carry_addons(self, context: Any, cluster: Object) -> None:
        """Give the cluster the add-ons that its nodegroups need."""
        settings = CONF[options.GROUP]
        nodes = [
            found
            for each in self._entries.values()
            if (found := each.get("nodeLabels"))
        ]
        chosen: Sequence[addons.Addon] = ()
        if nodes:
            every = (
                *addons.load(pathlib.Path(settings.addons_directory)),
                pod_networks.addon(nodes),
            )
            addons.check_images(every, settings.addon_images)
            chosen = addons.needed(
                addons.select(every, settings.addons), nodes
            )
        kubernetes = None
        if any(each.mutates for each in chosen):
            _, kubernetes, _ = self._get_image_details(
                context, cluster.cluster_template.image_id
            )
        if settings.addon_carrier == options.CUSTOM:
            self._helm_client.overlay = addons.custom(
                chosen, settings.addon_images, kubernetes
            )
            return
        resource_set.apply(
            self._k8s_client,
            driver_utils.chart_release_name(cluster),
            driver_utils.cluster_namespace(cluster),
            self._k8s_resource_labels(cluster),
            chosen,
            settings.addon_images,
            kubernetes,
        )

    def _update_status_deleting(self, context: Any, cluster: Object) -> None:
        resource_set.delete(
            self._k8s_client,
            cluster.uuid,
            driver_utils.cluster_namespace(cluster),
        )
        super()._update_status_deleting(context, cluster)

    def _process_node_groups(
        self, cluster: Object, nodegroups: Sequence[Object]
    ) -> list[dict[str, Any]]:
        groups = [
            each for each in _workers(nodegroups) if each.uuid in self._entries
        ]
        rendered = super()._process_node_groups(cluster, groups)
        return [
            {**item, **self._entries[each.uuid]}
            for each, item in zip(groups, rendered, strict=True)
        ]

    def _update_worker_nodegroup_status(
        self, cluster: Object, nodegroup: Object
    ) -> Object | None:
        if (
            nodegroup.status.startswith("DELETE_")
            or nodegroup.status.endswith("_FAILED")
        ) and _owner(cluster, nodegroup).uuid != nodegroup.uuid:
            # Machines of this chart name belong to the older nodegroup.
            return self._update_nodegroup_status(
                cluster, nodegroup, driver.NodeGroupState.NOT_PRESENT
            )
        return super()._update_worker_nodegroup_status(cluster, nodegroup)

    def _storageclass_definitions(
        self, context: Any, cluster: Object
    ) -> dict[str, Any]:
        try:
            if _has_cinder(context):
                found: dict[str, Any] = super()._storageclass_definitions(
                    context, cluster
                )
                return found
        except IndexError:
            LOG.info("Cinder has no volume types")
        return {"enabled": False}

    # Judging nodegroups.

    def _begin(
        self,
        context: Any,
        cluster: Object,
        groups: Iterable[Object],
        gone: Iterable[Object] = (),
    ) -> operation.Operation:
        """Begin an operation on nodegroups.

        :param groups: nodegroups that it may build.
        :param gone: nodegroups that it removes.
        """
        removed = frozenset(_chart_name(each) for each in gone)
        session = clients.OpenStackClients(context).keystone().session
        self._operation = operation.Operation(
            Settings(
                release=driver_utils.chart_release_name(cluster),
                taint_realtime=CONF[options.GROUP].taint_realtime_nodes,
                onload_admission=CONF[options.GROUP].onload_admission,
                extra_networks=self._extra_networks(cluster),
            ),
            lambda: cloud.flavors(_adapter(session, "compute")),
            lambda: cloud.networks(_adapter(session, "network")),
            lambda: self._built(cluster, removed),
            frozenset(each.uuid for each in groups),
        )
        return self._operation

    def _judge(
        self,
        under_way: operation.Operation,
        groups: Iterable[Object],
        *,
        growth_alone: bool = False,
    ) -> Mapping[str, str]:
        """Return warnings by nodegroup.

        :param growth_alone: skip nodegroups that do not grow.
        :raises MagnumError: if one of them is refused.
        """
        refused, warnings = [], {}
        for each in map(_group, groups):
            grows = under_way.grows(each)
            if growth_alone and not grows:
                continue
            try:
                rendered = under_way.render(each)
                if grows:
                    self._check_hosts(each, rendered)
            except errors.NodegroupRefused as error:
                if error.is_warning:
                    LOG.warning("%s", error)
                    warnings[each.uuid] = errors.sentence(str(error))
                else:
                    refused.append(error)
        if refused:
            raise errors.several(refused)
        return warnings

    def _check_hosts(
        self, group: operation.Group, rendered: nodegroup.Rendered
    ) -> None:
        problem = _why_no_traits(rendered) or _why_no_host(rendered)
        if problem is not None:
            warn = CONF[options.GROUP].unfit_flavor == options.WARN
            raise errors.NodegroupRefused(
                group.shape.name, [problem], is_warning=warn
            )

    def _built(
        self, cluster: Object, removed: Collection[str]
    ) -> Mapping[str, Mapping[str, Any]] | None:
        release = driver_utils.chart_release_name(cluster)
        if not release:
            return None
        found = self._helm_client.nodegroups(
            release, driver_utils.cluster_namespace(cluster)
        )
        if found is None:
            return None
        return {
            name: entry for name, entry in found.items() if name not in removed
        }

    def _extra_networks(self, cluster: Object) -> tuple[str, ...]:
        # As _update_helm_release of magnum-capi-helm reads them.
        several = self._label(
            cluster,
            "extra_network_names",
            CONF.capi_helm_cluster_labels.extra_network_names,
        )
        one = self._label(cluster, "extra_network_name", "")
        return tuple((several or one or "").split())


def _workers(groups: Iterable[Object]) -> list[Object]:
    return [
        each
        for each in groups
        if each.role != driver.NODE_GROUP_ROLE_CONTROLLER
    ]


def _group(found: Object) -> operation.Group:
    """Return a nodegroup as read from Magnum's database.

    Releases before 2026.2 have neither node_labels nor node_taints.
    """
    return operation.Group(
        uuid=found.uuid,
        flavor=found.flavor_id,
        count=found.node_count,
        failed=(found.status or "").endswith("_FAILED"),
        deleted=(found.status or "").startswith("DELETE_"),
        shape=Nodegroup(
            name=found.name,
            chart_name=_chart_name(found),
            labels=found.labels or {},
            node_labels=getattr(found, "node_labels", None) or {},
            node_taints=getattr(found, "node_taints", None) or (),
            default=bool(found.is_default),
        ),
    )


def _chart_name(group: Object) -> str:
    return driver_utils.sanitized_name(group.name) or ""


def _owner(cluster: Object, group: Object) -> Object:
    """Return the oldest nodegroup with the chart name of a nodegroup.

    Machines of that chart name are those of the oldest one.
    """
    same = (
        each
        for each in _workers(cluster.nodegroups)
        if _chart_name(each) == _chart_name(group)
    )
    return next(same, group)


def _note(groups: Iterable[Object], warnings: Mapping[str, str]) -> None:
    """Save the warnings of nodegroups, or clear earlier ones."""
    for each in groups:
        text = warnings.get(each.uuid)
        if each.status_reason != text:
            each.status_reason = text
            each.save()


def _adapter(session: Any, service: str) -> Adapter:
    return Adapter(
        session=session,
        service_type=service,
        interface=CONF.nova_client.endpoint_type,
        region_name=CONF.nova_client.region_name,
    )


def _why_no_traits(rendered: nodegroup.Rendered) -> str | None:
    """Return a clause if no host has the traits."""
    if not rendered.traits:
        return None
    admin = keystone.KeystoneClientV3(magnum_context.make_admin_context())
    if cloud.has_host(_adapter(admin.session, "placement"), rendered.traits):
        return None
    return (
        f"no host has the traits that flavor {rendered.flavor.name!r} implies "
        f"({', '.join(sorted(rendered.traits))}); 'sriov-rt explain --flavor' "
        "says why"
    )


def _why_no_host(rendered: nodegroup.Rendered) -> str | None:
    """Return a clause if no host's facts allow a server."""
    flavor = rendered.flavor
    if CONF[options.GROUP].host_check != options.FACTS or not request.asks(
        flavor.extra_specs or {}
    ):
        return None
    found = hosts.Hosts(hosts.of_this_process()).why_none(
        rendered.request,
        flavor.vcpus,
        flavor.ram_mib,
        hosts.max_age_s(CONF),
    )
    return found and f"flavor {flavor.name!r}: {found}"


def _has_cinder(context: Any) -> bool:
    try:
        return bool(
            clients.OpenStackClients(context).url_for(
                service_type="block-storage",
                interface=CONF.cinder_client.endpoint_type,
                region_name=CONF.cinder_client.region_name,
            )
        )
    except ks_exceptions.EndpointNotFound:
        return False


def _unusable(error: Exception) -> errors.ManagementUnusable:
    return errors.ManagementUnusable(f"{type(error).__name__}: {error}")


@contextlib.contextmanager
def _sentences(cluster: Object, remedy: str) -> Iterator[None]:
    """Set the cluster's status_reason to the failure and its remedy.

    The conductor saves the cluster when an operation fails, and sets the
    reason itself for some operations only.
    """
    try:
        yield
    except exceptions.SriovRtError as error:
        failed = Refused(str(error), remedy)
        cluster.status_reason = failed.message
        raise failed from error
    except OSError as error:
        # Reading the kubeconfig or a request to its API server failed.
        failed = Refused(str(_unusable(error)), remedy)
        cluster.status_reason = failed.message
        raise failed from error
    except Exception as error:
        cluster.status_reason = errors.sentence(str(error), remedy)
        raise
    if cluster.status_reason:
        cluster.status_reason = None
        cluster.save()
