# SPDX-License-Identifier: Apache-2.0

"""Nova's own vendordata driver asks our service, behind Keystone's."""

import io
import json
import pathlib
import tempfile
import threading
import unittest
import uuid
import wsgiref.simple_server
from unittest import mock

import nova.conf
from nova.api.metadata import vendordata_dynamic

from sriov_rt.cmd import vendordata
from sriov_rt.host.root import Root
from sriov_rt.nova.vendordata import Application
from sriov_rt.onload import settings as onload_settings

ASKS = {"sriov_rt:onload": "required", "sriov_rt:onload_profile": "mine"}

CONFIG = """[onload]
profile_directories = {place}
profiles = mine
[keystone_authtoken]
www_authenticate_uri = http://keystone.example
auth_type = password
auth_url = http://127.0.0.1:1
username = u
password = p
project_name = service
user_domain_id = default
project_domain_id = default
memcached_servers =
"""


class _Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *args):
        """Say nothing."""


class VendordataTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        path = pathlib.Path(place.name).resolve()
        (path / "mine.opf").write_text("onload_set EF_POLL_USEC 9\n")
        self.config = path / "sriov-rt.conf"
        self.config.write_text(CONFIG.format(place=path))
        self.instance = mock.Mock(
            uuid=str(uuid.uuid4()),
            project_id="p",
            image_ref="i",
            user_data="evil",
            hostname="h",
            metadata={"sriov_rt:onload": "off"},
            system_metadata={},
        )
        self.specs = {self.instance.uuid: ASKS}

    def serve(self, application):
        server = wsgiref.simple_server.make_server(
            "127.0.0.1", 0, application, handler_class=_Quiet
        )
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        return server.server_port

    def ask(self, port):
        """Return what Nova's driver makes of our answer."""
        target = f"cloud-init@http://127.0.0.1:{port}/"
        conf = nova.conf.CONF
        conf.set_override("vendordata_dynamic_targets", [target], "api")
        self.addCleanup(
            conf.clear_override, "vendordata_dynamic_targets", "api"
        )
        return vendordata_dynamic.DynamicVendorData(self.instance).get()

    def test_nova_hands_our_answer_on(self):
        settings = onload_settings.load([str(self.config)])
        service = Application(settings, Root(), self.specs.get)

        def authenticated(environ, start_response):
            # What Keystone's middleware sets for a token of Nova's user.
            environ["HTTP_X_IDENTITY_STATUS"] = "Confirmed"
            environ["HTTP_X_ROLES"] = "service"
            return service(environ, start_response)

        port = self.serve(authenticated)
        answer = self.ask(port)["cloud-init"]
        head, _, rest = answer.partition("\n")
        self.assertEqual("#cloud-config", head)
        content = json.loads(rest)["write_files"][0]["content"]
        self.assertIn("LD_PRELOAD=libonload.so\nEF_POLL_USEC=9\n", content)
        self.specs.clear()
        self.specs[self.instance.uuid] = {}
        self.assertEqual({"cloud-init": {}}, self.ask(port))

    def post(self, application, **headers):
        body = json.dumps({"instance-id": self.instance.uuid}).encode()
        said = []
        list(
            application(
                {
                    "REQUEST_METHOD": "POST",
                    "PATH_INFO": "/",
                    "SERVER_NAME": "x",
                    "SERVER_PORT": "80",
                    "wsgi.url_scheme": "http",
                    "CONTENT_LENGTH": str(len(body)),
                    "wsgi.input": io.BytesIO(body),
                    **headers,
                },
                lambda status, *more: said.append(status),
            )
        )
        return said[0]

    def test_keystones_middleware_stands_before_it(self):
        asked = []
        service = vendordata.application([str(self.config)], asked.append)
        self.assertEqual("401 Unauthorized", self.post(service))
        # Headers that a client makes up are taken off.
        forged = {
            "HTTP_X_IDENTITY_STATUS": "Confirmed",
            "HTTP_X_ROLES": "admin",
        }
        self.assertEqual("401 Unauthorized", self.post(service, **forged))
        self.assertEqual([], asked)
