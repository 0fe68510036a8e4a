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

"""A libvirt domain document: taken in with suspicion, given back as it was."""

import functools
import re

from lxml import etree

from sriov_rt.guest.domain import Domain
from sriov_rt.guest.values import DomainRejected

__all__ = ["MAX_DOCUMENT", "Domain", "DomainRejected", "parse", "serialise"]

#: The longest document that is taken in, in bytes. Nova's are below 64 kB.
MAX_DOCUMENT = 1024 * 1024

_ENCODING = re.compile(rb"<\?xml[^>]{0,80}encoding\s*=\s*[\"']([^\"']*)[\"']")
_UTF8 = frozenset({b"utf-8", b"utf8", b"us-ascii", b"ascii"})


def parse(xml: str | bytes) -> Domain:
    """Return the domain of a document, in bounded time and memory.

    :param xml: at most MAX_DOCUMENT bytes of UTF-8, without a DOCTYPE.
    :raises DomainRejected: if it is not that, or no domain.
    """
    if len(xml) > MAX_DOCUMENT:
        raise DomainRejected(f"longer than {MAX_DOCUMENT} bytes")
    try:
        # A document in another encoding would get past the look for a
        # DOCTYPE, so there is none but UTF-8, whatever it declares.
        if isinstance(xml, str):
            data = xml.encode()
        else:
            data = xml
            xml.decode()
    except UnicodeError:
        raise DomainRejected("not UTF-8") from None
    _check(data)
    try:
        root = etree.fromstring(data, _parser())
    except etree.XMLSyntaxError as error:
        problem = ascii(error.msg)[:200]
        raise DomainRejected(f"not XML ({problem})") from None
    if root.tag != "domain":
        raise DomainRejected("its root is not <domain>")
    return Domain(root)


def serialise(domain: Domain) -> str:
    """Return a domain as XML text, without a declaration."""
    text: str = etree.tostring(domain.root, encoding="unicode")
    return text


@functools.cache
def _parser() -> etree.XMLParser:
    # Without huge_tree libxml2 ends at some hundred elements of depth
    # (xmlParserMaxDepth in its parserInternals.h).
    return etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
    )


def _check(data: bytes) -> None:
    if len(data) > MAX_DOCUMENT:
        raise DomainRejected(f"longer than {MAX_DOCUMENT} bytes")
    if b"\0" in data:
        raise DomainRejected("a NUL in it")
    if data.startswith(b"<domain"):
        # As nearly all do. What comes now can be no DOCTYPE and declare no
        # encoding; the parser sees to that.
        return
    # Only a DOCTYPE can declare an entity. One inside a comment is refused
    # too: no domain needs to speak of it.
    if b"<!DOCTYPE" in data:
        raise DomainRejected("a DOCTYPE in it")
    declared = _ENCODING.match(data)
    if declared and declared[1].lower() not in _UTF8:
        raise DomainRejected("it declares an encoding other than UTF-8")
