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

"""XML elements: the few things that lxml leaves to do."""

from collections.abc import Iterable
from collections.abc import Mapping
from typing import cast

from lxml import etree

Element = etree._Element


def attributes(element: Element) -> dict[str, str]:
    """Return the attributes of an element."""
    # lxml gives str alone for a document that it parsed from XML.
    return cast(dict[str, str], dict(element.items()))


def append(parent: Element, tag: str, given: Mapping[str, str]) -> Element:
    """Add an element at the end of another, indented like its siblings.

    :param given: its attributes.
    """
    last = parent[-1] if len(parent) else None
    added = etree.SubElement(parent, tag, dict(given))
    if last is not None:
        added.tail = last.tail
        last.tail = parent.text
    return added


def remove(parent: Element, gone: Iterable[Element]) -> None:
    """Take children out of an element; its end stays indented as it was."""
    closing = parent[-1].tail
    for each in gone:
        parent.remove(each)
    if len(parent):
        parent[-1].tail = closing
    else:
        parent.text = closing
