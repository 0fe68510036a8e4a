# SPDX-License-Identifier: Apache-2.0

"""Completion for zsh, with the words that cliff has for bash."""

from cliff import complete

_TRAILER = """
  local name=cmds word next
  for word in "${(@)words[2,CURRENT-1]}"; do
    next=${name}_${word//-/_}
    [[ $next != *[^a-z_]* && -n ${(P)next} ]] || break
    name=$next
  done
  local -a found=(${=${(P)name}})
  # Options are many: they are shown to who has begun one.
  if [[ $PREFIX == -* ]]; then
    compadd -- ${(M)found:#-*}
  else
    compadd -- ${found:#-*}
    [[ $found[1] != -* ]] || _files
  fi
}

"""


class CompleteZsh(complete.CompleteShellBase):
    """A function that zsh finds in its ``fpath``."""

    def get_header(self) -> str:
        """Return the text before the words."""
        return f"#compdef {self.name}\n\n_{self.escaped_name}() {{\n"

    def get_trailer(self) -> str:
        """Return the code that chooses among the words."""
        return f'{_TRAILER}_{self.escaped_name} "$@"\n'
