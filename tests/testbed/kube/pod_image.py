# SPDX-License-Identifier: Apache-2.0

"""Images of containers, made without a registry."""

import hashlib
import io
import json
import pathlib
import tarfile
from typing import Any

#: Of what keeps a pod's namespaces.
SANDBOX = "localhost/pause:1"


def archive(
    tree: pathlib.Path, file: pathlib.Path, name: str, command: list[str]
) -> None:
    """Write an image of one layer, as 'docker save' does.

    :param tree: what is in it.
    :param file: the archive.
    :param name: of the image.
    :param command: that its containers run.
    """
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        archive.add(tree, arcname=".")
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    configuration = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": command, "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    manifest: list[dict[str, Any]] = [
        {
            "Config": "config.json",
            "RepoTags": [name],
            "Layers": [f"{digest}/layer.tar"],
        }
    ]
    with tarfile.open(file, "w") as archive:
        for path, data in (
            (f"{digest}/layer.tar", layer.getvalue()),
            ("config.json", configuration),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
