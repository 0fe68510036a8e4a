# SPDX-License-Identifier: Apache-2.0

"""Magnum's cluster driver ``sriov_rt``, based on magnum-capi-helm's."""

import pathlib
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from magnum.common import clients
from magnum_capi_helm import conf
from magnum_capi_helm import driver
from magnum_capi_helm import driver_utils
from oslo_log import log as logging

from sriov_rt.magnum import addons
from sriov_rt.magnum import admission
from sriov_rt.magnum import cloud
from sriov_rt.magnum import endpoints
from sriov_rt.magnum import errors
from sriov_rt.magnum import helm
from sriov_rt.magnum import monitor
from sriov_rt.magnum import objects
from sriov_rt.magnum import operation
from sriov_rt.magnum import options
from sriov_rt.magnum import pod_networks
from sriov_rt.magnum import resource_set
from sriov_rt.magnum import status_reason
from sriov_rt.magnum.nodegroup import Settings
from sriov_rt.magnum.nodegroup import why_not_flavor
from sriov_rt.magnum.objects import Object

LOG = logging.getLogger(__name__)
CONF = conf.CONF


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
        """Return nothing: a template selects this driver only by name."""
        return []

    def get_monitor(self, context: Any, cluster: Object) -> monitor.Monitor:
        """Return a monitor that can judge a cluster without a release."""
        return monitor.Monitor(context, cluster)

    def check_nodegroup(
        self, context: Any, cluster: Object, group: Object
    ) -> None:
        """Check that a nodegroup can be rendered; hosts are not judged.

        :param group: a nodegroup, which need not be in the database.
        :raises NodegroupRefused: if it cannot be rendered.
        """
        self._begin(context, cluster, [group]).render(objects.group(group))

    # Operations of the conductor.

    def create_cluster(
        self, context: Any, cluster: Object, cluster_create_timeout: int
    ) -> None:
        """Create a cluster, unless one of its nodegroups is refused."""
        with status_reason.sentences(cluster, status_reason.AFTER_CREATE):
            groups = objects.workers(cluster.nodegroups)
            under_way = self._begin(context, cluster, groups)
            master = under_way.flavor("master", cluster.master_flavor_id)
            problems = why_not_flavor(master)
            if problems:
                raise errors.NodegroupRefused("master", problems)
            warnings = admission.judge(under_way, groups)
            super().create_cluster(context, cluster, cluster_create_timeout)
            status_reason.note(groups, warnings)

    def update_cluster(
        self,
        context: Any,
        cluster: Object,
        scale_manager: Any = None,
        rollback: bool = False,
    ) -> None:
        """Update a cluster after a change of its default nodegroup's size."""
        with status_reason.sentences(cluster, status_reason.AFTER_UPDATE):
            resized = [cluster.default_ng_worker]
            under_way = self._begin(context, cluster, resized)
            warnings = admission.judge(under_way, resized, growth_alone=True)
            super().update_cluster(context, cluster, scale_manager, rollback)
            status_reason.note(resized, warnings)

    def resize_cluster(
        self,
        context: Any,
        cluster: Object,
        resize_manager: Any,
        node_count: int,
        nodes_to_remove: Any,
        nodegroup: Object = None,
    ) -> None:
        """Resize a nodegroup; shrinking is never refused."""
        with status_reason.sentences(cluster, status_reason.AFTER_UPDATE):
            resized = objects.workers([nodegroup or cluster.default_ng_worker])
            under_way = self._begin(context, cluster, resized)
            warnings = admission.judge(under_way, resized, growth_alone=True)
            super().resize_cluster(
                context,
                cluster,
                resize_manager,
                node_count,
                nodes_to_remove,
                nodegroup,
            )
            status_reason.note(resized, warnings)

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
        with status_reason.sentences(cluster, status_reason.AFTER_UPDATE):
            groups = objects.workers(cluster.nodegroups)
            under_way = self._begin(context, cluster, [])
            # The upgrade sets every nodegroup to UPDATE_IN_PROGRESS.
            out = {
                each.uuid: each.status
                for each in groups
                if under_way.is_left_out(objects.group(each))
            }
            under_way.leave_out(out)
            admission.judge(
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
        with status_reason.sentences(cluster, status_reason.AFTER_NODEGROUP):
            under_way = self._begin(context, cluster, [nodegroup])
            owner = objects.owner(cluster, nodegroup)
            if owner.uuid != nodegroup.uuid:
                raise errors.NodegroupRefused(
                    nodegroup.name,
                    [
                        f"its name is that of {owner.name!r} in the chart; "
                        "choose another name"
                    ],
                )
            warnings = admission.judge(under_way, [nodegroup])
            super().create_nodegroup(context, cluster, nodegroup)
            status_reason.note([nodegroup], warnings)

    def update_nodegroup(
        self, context: Any, cluster: Object, nodegroup: Object
    ) -> None:
        """Update a nodegroup, unless it is refused."""
        with status_reason.sentences(cluster, status_reason.AFTER_NODEGROUP):
            updated = objects.workers([nodegroup])
            under_way = self._begin(context, cluster, updated)
            warnings = admission.judge(under_way, updated)
            super().update_nodegroup(context, cluster, nodegroup)
            status_reason.note(updated, warnings)

    def delete_nodegroup(
        self, context: Any, cluster: Object, nodegroup: Object
    ) -> None:
        """Delete a nodegroup, whatever its flavor."""
        with status_reason.sentences(cluster, status_reason.AFTER_NODEGROUP):
            # If two nodegroups have one chart name, the older one was built.
            owner = objects.owner(cluster, nodegroup)
            gone = [owner] if owner.uuid == nodegroup.uuid else []
            self._begin(context, cluster, [], gone)
            super().delete_nodegroup(context, cluster, nodegroup)

    def delete_cluster(self, context: Any, cluster: Object) -> None:
        """Delete a cluster, whatever its flavors."""
        with status_reason.sentences(cluster, status_reason.AFTER_DELETE):
            super().delete_cluster(context, cluster)

    def update_cluster_status(
        self, context: Any, cluster: Object, *args: Any, **kwargs: Any
    ) -> None:
        """Update the status; keep it if there is no usable answer."""
        try:
            super().update_cluster_status(context, cluster, *args, **kwargs)
        except monitor.NO_ANSWER as error:
            text = errors.sentence(str(monitor.unusable(error)))
            LOG.warning("Status of cluster %s: %s", cluster.uuid, text)
            if cluster.status_reason != text:
                cluster.status_reason = text
                cluster.save()
            return
        if (cluster.status_reason or "").startswith(errors.NO_MANAGEMENT):
            cluster.status_reason = None
            cluster.save()

    # Methods of magnum-capi-helm that are overridden.

    def _update_helm_release(
        self,
        context: Any,
        cluster: Object,
        nodegroups: Sequence[Object] | None = None,
    ) -> None:
        groups = list(cluster.nodegroups if nodegroups is None else nodegroups)
        under_way = self._operation or self._begin(context, cluster, [])
        self._entries = under_way.entries(
            [objects.group(each) for each in objects.workers(groups)]
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
            each
            for each in objects.workers(nodegroups)
            if each.uuid in self._entries
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
        ) and objects.owner(cluster, nodegroup).uuid != nodegroup.uuid:
            # Machines of this chart name belong to the older nodegroup.
            return self._update_nodegroup_status(
                cluster, nodegroup, driver.NodeGroupState.NOT_PRESENT
            )
        return super()._update_worker_nodegroup_status(cluster, nodegroup)

    def _storageclass_definitions(
        self, context: Any, cluster: Object
    ) -> dict[str, Any]:
        try:
            if endpoints.has_cinder(context):
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
        """
        removed = frozenset(objects.chart_name(each) for each in gone)
        session = clients.OpenStackClients(context).keystone().session
        self._operation = operation.Operation(
            Settings(
                release=driver_utils.chart_release_name(cluster),
                taint_realtime=CONF[options.GROUP].taint_realtime_nodes,
                onload_admission=CONF[options.GROUP].onload_admission,
                extra_networks=self._extra_networks(cluster),
            ),
            lambda: cloud.flavors(endpoints.adapter(session, "compute")),
            lambda: cloud.networks(endpoints.adapter(session, "network")),
            lambda: self._built(cluster, removed),
            frozenset(each.uuid for each in groups),
        )
        return self._operation

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
        # Read as in _update_helm_release of magnum-capi-helm.
        several = self._label(
            cluster,
            "extra_network_names",
            CONF.capi_helm_cluster_labels.extra_network_names,
        )
        one = self._label(cluster, "extra_network_name", "")
        return tuple((several or one or "").split())
