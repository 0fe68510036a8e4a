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
"""Native threads in place of eventlet's, for programs of ours."""

import warnings

#: What eventlet warns of when it is imported; futurist imports it wherever it
#: is installed. Not by its class, which is no DeprecationWarning.
_WARNING = r"\s*Eventlet is deprecated"


def choose() -> None:
    """Have oslo.service run on native threads.

    To be called before anything else imports it: oslo.messaging does, and
    settles for eventlet unless a backend is chosen by then.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", _WARNING)
        from oslo_service import backend

        if backend.get_backend_type() is None:
            backend.init_backend(backend.BackendType.THREADING)
        import oslo_messaging  # noqa: F401
