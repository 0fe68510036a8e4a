# SPDX-License-Identifier: Apache-2.0

"""Native threads instead of eventlet's, for our own programs."""

import warnings

#: eventlet's warning at its import; futurist imports it wherever it is
#: installed. Matched by text, since its class is not DeprecationWarning.
_WARNING = r"\s*Eventlet is deprecated"


def choose() -> None:
    """Choose native threads for oslo.service.

    Call this before anything else imports oslo.service: oslo.messaging does,
    and uses eventlet unless a backend has been chosen.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _WARNING)
        from oslo_service import backend

        if backend.get_backend_type() is None:
            backend.init_backend(backend.BackendType.THREADING)
        import oslo_messaging  # noqa: F401
