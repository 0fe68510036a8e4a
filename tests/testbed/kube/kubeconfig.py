# SPDX-License-Identifier: Apache-2.0

"""Files that tell a client where the API server is and who it is."""

import dataclasses
import json
import pathlib


@dataclasses.dataclass(frozen=True)
class Credentials:
    """Who a client is; either of the two.

    :param pem: file with its certificate and key.
    :param token_file: file with its bearer token.
    """

    pem: pathlib.Path | None = None
    token_file: pathlib.Path | None = None


def write(
    file: pathlib.Path,
    server: str,
    authority: pathlib.Path,
    credentials: Credentials,
) -> None:
    """Write a kubeconfig; JSON is YAML too.

    :param file: what is written or replaced.
    :param server: as in "https://127.0.0.1:6443".
    :param authority: file with the certificate that the server is checked
        by.
    :param credentials: files that the client reads again when they change.
    """
    user: dict[str, str] = {}
    if credentials.pem is not None:
        user["client-certificate"] = str(credentials.pem)
        user["client-key"] = str(credentials.pem)
    if credentials.token_file is not None:
        user["tokenFile"] = str(credentials.token_file)
    cluster = {"server": server, "certificate-authority": str(authority)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "testbed", "cluster": cluster}],
        "users": [{"name": "client", "user": user}],
        "contexts": [
            {
                "name": "testbed",
                "context": {"cluster": "testbed", "user": "client"},
            }
        ],
        "current-context": "testbed",
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".new")
    draft.write_text(json.dumps(content, indent=1) + "\n")
    draft.replace(file)
