# SPDX-License-Identifier: Apache-2.0

"""The options of ``[placement]``."""

from keystoneauth1 import loading
from oslo_config import cfg

GROUP = "placement"

#: Seconds that one answer of Keystone or Placement may take; by default
#: keystoneauth waits without a limit.
REQUEST_TIMEOUT_S = 30.0


def opts() -> list[cfg.Opt]:
    """Return the options of ``[placement]``, which are the same as Nova's."""
    session = loading.get_session_conf_options()
    cfg.set_defaults(session, timeout=REQUEST_TIMEOUT_S)
    adapter = loading.get_adapter_conf_options(include_deprecated=False)
    cfg.set_defaults(
        adapter,
        service_type="placement",
        # Nova's defaults (nova/conf/utils.py).
        valid_interfaces=["internal", "public"],
    )
    return [*session, *loading.get_auth_common_conf_options(), *adapter]
