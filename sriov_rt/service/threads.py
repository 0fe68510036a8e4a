# SPDX-License-Identifier: Apache-2.0

"""Native threads in place of eventlet's, for programs of ours."""

import warnings

#: What eventlet warns of when it is imported; futurist imports it wherever it
#: is installed. Not by its class, which is no DeprecationWarning.
_WARNING = r"\s*Eventlet is deprecated"


def choose() -> None:
    """Choose native threads for oslo.service.

    To be called before anything else imports it: oslo.messaging does, and
    settles for eventlet unless a backend is chosen by then.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _WARNING)
        from oslo_service import backend

        if backend.get_backend_type() is None:
            backend.init_backend(backend.BackendType.THREADING)
        import oslo_messaging  # noqa: F401
