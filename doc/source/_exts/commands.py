# SPDX-License-Identifier: Apache-2.0

"""A directive that describes the commands of sriov-rt by their parsers."""

import re

from cliff import sphinxext

from sriov_rt.cmd import shell


class Commands(sphinxext.AutoprogramCliffDirective):
    """Every command, its arguments and options."""

    required_arguments = 0

    def run(self):
        self.env = self.state.document.settings.env
        manager = shell.Commands("sriov_rt")
        found = {name: entry.load() for name, entry in manager}
        return self._generate_command_nodes(found, shell.Shell.NAME)

    def _drop_ignored_options(self, parser, ignored_opts):
        """Drop them, and have the text of help as a terminal has it."""
        super()._drop_ignored_options(parser, ignored_opts)
        formatter = parser._get_formatter()  # noqa: SLF001
        for action in parser._actions:  # noqa: SLF001
            if action.help:
                # With its default, as --help has it.
                text = formatter._expand_help(action)  # noqa: SLF001
                action.help = _literal(text)
        parser.description = _literal(parser.description)
        parser.epilog = _literal(parser.epilog)


def _literal(text):
    return text and re.sub(r"([*`|_])", r"\\\1", text)


def setup(app):
    """Have Sphinx know the directive."""
    app.setup_extension("cliff.sphinxext")
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
