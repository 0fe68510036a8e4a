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

"""The test bed's certificates, by the rules that Python 3.13 has."""

import pathlib
import ssl
import tempfile
import unittest

from tests.testbed.kube import authority

HOST = "localhost"


class StrictTest(unittest.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = pathlib.Path(directory.name)
        self.ours = self._authority("ours")
        self.server = self.place / "server.pem"
        self.ours.issue(self.server, "server", alternatives=(f"DNS:{HOST}",))
        self.client = self.place / "client.pem"
        self.ours.issue(self.client, "admin", organization="system:masters")

    def test_a_server_and_a_client_take_each_other(self) -> None:
        found = self._shake_hands(self.server, self.client, self.ours)
        self.assertIn("'commonName', 'admin'", found)

    def test_another_authority_is_not_taken(self) -> None:
        other = self._authority("other")
        with self.assertRaises(ssl.SSLCertVerificationError):
            self._shake_hands(self.server, self.client, other)

    def test_one_for_clients_is_not_taken_of_a_server(self) -> None:
        with self.assertRaises(ssl.SSLCertVerificationError):
            self._shake_hands(self.client, self.client, self.ours)

    def _authority(self, name: str) -> authority.Authority:
        made = authority.Authority(self.place / name)
        made.make()
        return made

    def _shake_hands(
        self,
        server: pathlib.Path,
        client: pathlib.Path,
        trusted: authority.Authority,
    ) -> str:
        """Return what the client's certificate says to the server."""
        asked, answered = ssl.MemoryBIO(), ssl.MemoryBIO()
        here = self._context(ssl.PROTOCOL_TLS_CLIENT, client, trusted)
        there = self._context(ssl.PROTOCOL_TLS_SERVER, server, trusted)
        there.verify_mode = ssl.CERT_REQUIRED
        ends = (
            here.wrap_bio(answered, asked, server_hostname=HOST),
            there.wrap_bio(asked, answered, server_side=True),
        )
        done: set[ssl.SSLObject] = set()
        while len(done) < len(ends):
            for each in ends:
                try:
                    each.do_handshake()
                except ssl.SSLWantReadError:
                    continue
                done.add(each)
        return str(ends[1].getpeercert())

    def _context(
        self,
        protocol: int,
        own: pathlib.Path,
        trusted: authority.Authority,
    ) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        # The default of Python 3.13; earlier ones are asked for it.
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        context.load_verify_locations(trusted.certificate)
        context.load_cert_chain(own)
        return context
