# SPDX-License-Identifier: Apache-2.0

"""Directives that print vocabulary and tables from the code that uses them."""

import tables
from docutils import nodes
from docutils import statemachine
from docutils.parsers import rst

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
        return parsed(self, lines)


def parsed(directive, lines):
    """Return the nodes of lines of reStructuredText."""
    parent = nodes.Element()
    source = statemachine.StringList(lines, source="vocabulary")
    directive.state.nested_parse(source, directive.content_offset, parent)
    return parent.children


class ExtraSpecs(Vocabulary):
    """Every extra spec, its values and what it asks for."""

    def rows(self):
        for name, key in grammar.KEYS.items():
            yield (
                f"{grammar.NAMESPACE}:{name}",
                (
                    key.help,
                    "",
                    f"Values: {key.values}.",
                    f"Without it: {key.unset}. Since {key.since}.",
                ),
            )


class Reasons(rst.Directive):
    """A table of Reasons for each thing that can change."""

    def run(self):
        lines = []
        for title, table in tables.reasons():
            lines += [f".. rubric:: {title}", "", *tables.lines(table), ""]
        return parsed(self, lines)


def table_directive(table):
    """Return the directive of a table."""

    class TableDirective(rst.Directive):
        """A table from rows of the code."""

        def run(self):
            return parsed(self, list(tables.lines(table)))

    return TableDirective


def setup(app):
    """Register the directives with Sphinx."""
    for name, table in tables.TABLES.items():
        app.add_directive(name, table_directive(table))
    app.add_directive("extra-specs", ExtraSpecs)
    app.add_directive("reasons", Reasons)
    return {"parallel_read_safe": True}
