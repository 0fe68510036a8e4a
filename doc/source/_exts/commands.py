# SPDX-License-Identifier: Apache-2.0

"""A directive that describes the commands of sriov-rt by their parsers."""

import re

from cliff import sphinxext

from sriov_rt.cmd import shell

#: Options of each command's output.
_FORMATTERS = (
    *("--format", "--column", "--json", "--sort-column", "--sort-ascending"),
    *("--sort-descending", "--max-width", "--fit-width", "--print-empty"),
    *("--noindent", "--quote", "--prefix"),
)


class Commands(sphinxext.AutoprogramCliffDirective):
    """The commands of a group, their arguments and options."""

    required_arguments = 1

    def run(self):
        self.env = self.state.document.settings.env
        manager = shell.Commands("sriov_rt")
        (group,) = self.arguments
        found = {
            name: entry.load()
            for name, entry in manager
            if name.split()[0] == group
        }
        if not found:
            raise self.error(f"there is no command of the group {group}")
        return self._generate_command_nodes(found, shell.Shell.NAME)

    def _get_ignored_opts(self):
        """Leave out what is of cliff's formatters; sriov-rt(1) has it."""
        return [*super()._get_ignored_opts(), *_FORMATTERS]

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
