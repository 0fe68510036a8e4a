# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.


"""What cloud-init is told so that a VM's services run over Onload. Pure.

Nothing can be preloaded into a VM from outside. This writes a file that
systemd units of the guest name (``EnvironmentFile=``); that they do, and that
Onload is in the image, is for the image to see to.
"""

import json
from collections.abc import Mapping
from typing import Any

#: The file in the guest.
PATH = "/etc/sriov-rt/onload.env"


def cloud_config(
    environment: Mapping[str, str], profile: tuple[str, str] | None
) -> str:
    """Return user data of cloud-init: YAML, which JSON is.

    :param environment: LD_PRELOAD and the profile's variables.
    :param profile: its name and sha256.
    """
    head = "# Onload, by sriov-rt"
    if profile is not None:
        head += f": profile {profile[0]}, sha256 {profile[1]}"
    lines = [head, *(f"{name}={text}" for name, text in environment.items())]
    config: dict[str, Any] = {
        "write_files": [
            {
                "path": PATH,
                "permissions": "0644",
                "content": "\n".join(lines) + "\n",
            }
        ]
    }
    return "#cloud-config\n" + json.dumps(config, indent=2) + "\n"
