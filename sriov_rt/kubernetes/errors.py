# SPDX-License-Identifier: Apache-2.0

"""Errors of the Kubernetes API, with the operator's next step."""

from sriov_rt import exceptions


class ApiProblem(exceptions.SriovRtError):
    """A request to the API server failed; trying again may help.

    :ivar retry_after_s: delay that the API server requests, seconds, or 0.
    """

    retry_after_s = 0.0


class Unreachable(ApiProblem):
    """The API server cannot be reached, or hangs.

    :param why: a clause.
    """

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(
            f"the API server cannot be reached ({why}); check that it runs, "
            "and that the address in [kubernetes] is right"
        )


class CredentialsUnreadable(ApiProblem):
    """Kubeconfig, token or certificates cannot be used.

    :param why: a clause.
    """

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(
            f"there are no credentials for the API server ({why}); correct "
            "[kubernetes] kubeconfig, or api_server, token_file and ca_file"
        )


class CredentialsRefused(ApiProblem):
    """The API server does not accept the agent's credentials (401)."""

    def __init__(self) -> None:
        super().__init__(
            "the API server refuses the agent's credentials (401); renew "
            "its certificate or token, the files are read again"
        )


class Forbidden(ApiProblem):
    """The API server denies the agent access (403).

    :param message: message of the API server.
    """

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(
            f"the agent may not read its Node ({message}); let it get, list "
            "and watch this Node, see 'Labels' in the operator's guide"
        )


class Refused(ApiProblem):
    """An HTTP status that has no error class of its own.

    :param status: HTTP status.
    :param message: message of the API server.
    :param retry_after_s: delay that the API server requests, seconds.
    """

    def __init__(
        self, status: int, message: str, retry_after_s: float = 0.0
    ) -> None:
        self.status = status
        self.message = message
        self.retry_after_s = retry_after_s
        super().__init__(
            f"the API server answers {status} ({message}); see its log"
        )


class Expired(ApiProblem):
    """The resourceVersion to watch from has expired; list again (410)."""

    def __init__(self) -> None:
        super().__init__(
            "the API server no longer has the version to watch from (410); "
            "the Node is listed again"
        )


class Garbled(ApiProblem):
    """The answer is not one of a Kubernetes API server.

    :param problem: a clause.
    """

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(
            f"the API server's answer is garbled ({problem}); see what "
            "answers at its address"
        )
