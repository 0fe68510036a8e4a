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

"""Directives that print the vocabulary from the code that uses it."""

from docutils import nodes
from docutils import statemachine
from docutils.parsers import rst

from sriov_rt import reason
from sriov_rt.guest import sentences
from sriov_rt.onload import sentences as onload_sentences
from sriov_rt.request import grammar


class Vocabulary(rst.Directive):
    """A definition list; subclasses say of what."""

    def rows(self):
        """Yield a term and the lines of its definition."""
        return ()

    def run(self):
        lines = []
        for term, definition in self.rows():
            lines += [f"``{term}``", *(f"   {line}" for line in definition)]
            lines.append("")
        parent = nodes.Element()
        source = statemachine.StringList(lines, source="vocabulary")
        self.state.nested_parse(source, self.content_offset, parent)
        return parent.children


class ExtraSpecs(Vocabulary):
    """Every extra spec, its values and what it asks for."""

    def rows(self):
        for name, key in grammar.KEYS.items():
            yield (
                f"{grammar.NAMESPACE}:{name}",
                (key.help, "", f"Values: {key.values}."),
            )


class Reasons(Vocabulary):
    """Every Reason's code and sentence."""

    def rows(self):
        every = {
            **reason.SENTENCES,
            **sentences.SENTENCES,
            **onload_sentences.SENTENCES,
        }
        for code, sentence in sorted(every.items()):
            yield code, (f"``{sentence}``",)


def setup(app):
    """Register the directives with Sphinx."""
    app.add_directive("extra-specs", ExtraSpecs)
    app.add_directive("reasons", Reasons)
    return {"parallel_read_safe": True}
