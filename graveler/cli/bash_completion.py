"""How bash asks for completions, and what it is answered.

Bash splits a word at the characters of COMP_WORDBREAKS, and replaces only the last piece:

    graveler ls lakefs://lake/de       words: graveler  ls  lakefs  :  //lake/de
                       ▲               replaced: //lake/de

Click's script passes these pieces as if they were words, so no address with lakefs:// would be
completed.  The script here passes the line up to the cursor and the last piece.  An answer is cut
to what replaces the piece.  For this folder.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    shell_complete,
    split_arg_string,
)

from graveler.variables import environment

VARIABLE: Final = "_GRAVELER_COMPLETE"
_END: Final = "\0"  # in no line: it marks the last word, which may be empty
_SCRIPT: Final = r"""
%(complete_func)s() {
    local line=${COMP_LINE:0:COMP_POINT} word=${COMP_WORDS[COMP_CWORD]} response type value
    response=$(env COMP_WORDS="$line" COMP_PIECE="$2" %(complete_var)s=bash_complete "$1" \
        2>/dev/null)
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                [[ $value == */ ]] && compopt -o nospace
                [[ $word == [\"\']* ]] || printf -v value %%q "$value"
                COMPREPLY+=("$value")
                ;;
        esac
    done <<<"$response"
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class Bash(BashComplete):
    """Completion for bash."""

    source_template: ClassVar[str] = _SCRIPT
    _word = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        *words, last = split_arg_string(environment()["COMP_WORDS"] + _END)
        self._word = last.removesuffix(_END)
        return words[1:], self._word

    def format_completion(self, item: CompletionItem[Any]) -> str:
        if item.type != "plain":
            return super().format_completion(item)
        word, value = self._word, str(item.value)
        if word.startswith("-") and "=" in word:  # Click completes the value of the option alone
            value = f"{word.partition('=')[0]}={value}"
        return f"plain,{value[len(word) - len(self._piece()) :]}"

    def _piece(self) -> str:
        """What bash replaces, without its quotes."""
        piece = environment().get("COMP_PIECE", self._word)
        if self._word.endswith(piece):
            return piece
        return split_arg_string(piece + _END)[-1].removesuffix(_END)


def answer(root: click.Command, settings: Mapping[str, Any], instruction: str) -> int:
    """Answer a shell, and return the exit code."""
    add_completion_class(Bash)
    return shell_complete(root, dict(settings), "graveler", VARIABLE, instruction)
