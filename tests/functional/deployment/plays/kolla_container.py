"""Kolla-Ansible's module of this name, as far as it reaches no engine.

Its arguments are judged by the real one, whose path takes the place of REAL,
and are kept in the directory that takes the place of KEPT.
"""

import importlib.util
import json
import pathlib
import sys
import types

from ansible.module_utils.basic import AnsibleModule  # noqa: F401

REAL = "@REAL@"
KEPT = "@KEPT@"


def main():
    """Check the arguments and keep them."""
    # The one of systemd's units: no package of the index.
    sys.modules["dbus"] = types.ModuleType("dbus")
    # For Ansible, which packs what is imported, with the real module.
    from ansible.module_utils import kolla_container_worker  # noqa: F401

    spec = importlib.util.spec_from_file_location("kolla_container", REAL)
    real = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(real)
    module = real.generate_module()
    kept = pathlib.Path(KEPT, f"{module.params['name']}.json")
    kept.write_text(json.dumps(module.params))
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
