r"""How shells ask for completions, and how they are answered.

    shell    the words                             the word at the cursor
    bash     COMP_WORDS: the line up to the cursor, which the shell splits otherwise (below)
    zsh      arguments, without their quotes       the last argument, up to the cursor
    fish     arguments, without their quotes       the last argument, up to the cursor

The answer is a line for each item: kind, value and help, with tabs between them.  A kind is
`plain`, `file` or `dir`; for the last two, the shell completes names of files by itself.  A value
has no quotes: the script quotes it as its shell does.  No space follows a value that ends with a
slash, because it goes on.  A value with a control character is left out.

Bash splits a word at the characters of COMP_WORDBREAKS, and replaces only the last piece:

    graveler ls lakefs://lake/de       words: graveler  ls  lakefs  :  //lake/de
                       ▲               replaced: //lake/de

So its script passes the line and the piece, and an answer is cut to what replaces the piece.  The
piece begins after a quote that is open at the cursor, and contains those that are closed: the
script quotes as the open one needs it.  After a `$` or a backtick that bash expands, it cannot know
what a character means, and only names that need no quotes are completed.

Click has scripts of its own.  They pass the pieces of bash as words, put a space after `lake/` in
zsh, and cut a path at its first comma in fish.  For this folder.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import click
from click.shell_completion import CompletionItem, ShellComplete, split_arg_string

from graveler.cli.output import plain
from graveler.variables import environment

VARIABLE: Final = "_GRAVELER_COMPLETE"
_END: Final = "\0"  # in no line: it marks the last word, which may be empty
_BASH: Final = r"""%(complete_func)s() {
    local line=${COMP_LINE:0:COMP_POINT} quote= escaped= response item value char i
    for ((i = 0; i < ${#line}; i++)); do  # the quote that is open at the cursor
        char=${line:i:1}
        case $quote$char in
            \\ | \"\\) i=$((i + 1)) ;;
            \" | \') quote=$char ;;
            \"\" | \'\') quote= ;;
            [\$\`] | \"[\$\`])
                quote=unknown
                break
                ;;
        esac
    done
    response=$(env COMP_WORDS="$line" COMP_PIECE="$2" %(complete_var)s=bash_complete "$1" \
        2>/dev/null)
    COMPREPLY=()
    while IFS= read -r item; do
        value=${item#*$'\t'}
        value=${value%%%%$'\t'*}
        case ${item%%%%$'\t'*} in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                [[ $value == */ ]] && compopt -o nospace
                case $quote in
                    unknown) [[ $value == *[!A-Za-z0-9_./,:=@%%+-]* ]] && continue ;;
                    \")
                        value=${value//\\/\\\\}
                        value=${value//\"/\\\"}
                        value=${value//\$/\\\$}
                        value=${value//\`/\\\`}
                        value=${value//\!/\"\\\!\"}
                        ;;
                    \') value=${value//\'/\'\\\'\'} ;;
                    *)
                        printf -v escaped %%q "$value"
                        if [[ $escaped == \$\'* ]]; then
                            escaped=
                            for ((i = 0; i < ${#value}; i++)); do
                                char=${value:i:1}
                                [[ $char == [A-Za-z0-9_./,:=@%%+-] ]] || escaped+=\\
                                escaped+=$char
                            done
                        fi
                        value=$escaped
                        ;;
                esac
                COMPREPLY+=("$value")
                ;;
        esac
    done <<<"$response"
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""
_ZSH: Final = r"""#compdef %(prog_name)s

%(complete_func)s() {
    local -a items fields described ended open
    local item kind
    items=("${(@f)$(%(complete_var)s=zsh_complete ${~words[1]} "${(@Q)words[2,CURRENT-1]}" \
        "${(Q)PREFIX}" 2>/dev/null)}")
    for item in $items; do
        fields=("${(@ps:\t:)item}")
        case $fields[1] in
            dir) _files -/ ;;
            file) _files ;;
            plain)
                if [[ -n $fields[3] ]]; then
                    described+=("${${fields[2]//\\/\\\\}//:/\\:}:$fields[3]")
                elif [[ $fields[2] == */ ]]; then
                    open+=("$fields[2]")
                else
                    ended+=("$fields[2]")
                fi
                ;;
        esac
    done
    (( $#described )) && _describe -V 'completion' described
    (( $#ended )) && compadd -V items -a ended
    (( $#open )) && compadd -V items -S '' -a open
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then  # a file of fpath
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""
_FISH: Final = r"""function %(complete_func)s
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    set -l word (string unescape -- $typed; or string unescape -- $typed\'
        or string unescape -- $typed\"; or echo -- $typed)
    for item in (env %(complete_var)s=fish_complete $words $word 2>/dev/null)
        set -l fields (string split -m 2 \t -- $item)
        switch $fields[1]
            case dir
                __fish_complete_directories $word
            case file
                __fish_complete_path $word
            case plain
                printf '%%s\t%%s\n' $fields[2] $fields[3]
        end
    end
end

complete --no-files --keep-order --command %(prog_name)s --arguments "(%(complete_func)s)"
"""


class _Shell(ShellComplete):
    """What the shells have in common."""

    _word = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        *words, self._word = sys.argv[1:] or [""]
        return words, self._word

    def complete(self) -> str:
        words, word = self.get_completion_args()
        answers = map(self._answer, self.get_completions(words, word))
        lines = ("\t".join(fields) for fields in answers if not _has_controls(fields))
        return "\n".join(lines)

    def _answer(self, item: CompletionItem[Any]) -> tuple[str, str, str]:
        """Kind, value and help."""
        word, value = self._word, str(item.value)
        if item.type == "plain" and word.startswith("-") and "=" in word:
            value = f"{word.partition('=')[0]}={value}"  # Click completes the value alone
        return item.type, value, item.help or ""


class _Bash(_Shell):
    name: ClassVar[str] = "bash"
    source_template: ClassVar[str] = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        *words, last = split_arg_string(environment()["COMP_WORDS"] + _END)
        self._word = last.removesuffix(_END)
        return words[1:], self._word

    def _answer(self, item: CompletionItem[Any]) -> tuple[str, str, str]:
        kind, value, help_text = super()._answer(item)
        return kind, value[len(self._word) - len(self._piece()) :], help_text

    def _piece(self) -> str:
        """What bash replaces, without its quotes."""
        piece = environment().get("COMP_PIECE", self._word)
        if self._word.endswith(piece):
            return piece
        return split_arg_string(piece + _END)[-1].removesuffix(_END)


class _Zsh(_Shell):
    name: ClassVar[str] = "zsh"
    source_template: ClassVar[str] = _ZSH


class _Fish(_Shell):
    name: ClassVar[str] = "fish"
    source_template: ClassVar[str] = _FISH


def _has_controls(fields: Sequence[str]) -> bool:
    """Whether a field has a character that would end it, or control a terminal."""
    text = "".join(fields)
    return plain(text) != text


_KINDS: Final[Mapping[str, type[_Shell]]] = {kind.name: kind for kind in (_Bash, _Zsh, _Fish)}
NAMES: Final = tuple(_KINDS)


def script(root: click.Command, shell: str) -> str:
    """The script that the shell reads; `shell` is one of `NAMES`."""
    return _KINDS[shell](root, {}, "graveler", VARIABLE).source()


def answer(root: click.Command, settings: Mapping[str, Any], instruction: str) -> int:
    """Answer a shell, which asks with `SHELL_complete`, and return the exit code."""
    kind = _KINDS.get(instruction.partition("_")[0])
    if kind is None:
        return 1
    print(kind(root, dict(settings), "graveler", VARIABLE).complete())
    return 0
