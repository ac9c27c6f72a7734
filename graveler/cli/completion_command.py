"""`graveler completion`: the scripts for the shells."""

import click

from graveler.cli import shells
from graveler.cli.command import client
from graveler.cli.invocation import Invocation


@client(
    "completion",
    examples=(
        'eval "$(graveler completion bash)"            # in ~/.bashrc',
        'eval "$(graveler completion zsh)"             # in ~/.zshrc',
        "graveler completion fish >~/.config/fish/completions/graveler.fish",
    ),
)
@click.argument("shell", type=click.Choice(shells.NAMES))
def completion(invocation: Invocation, shell: str) -> int:
    """Print a script with which a shell completes commands, options and addresses.

    Repositories, refs and paths come from the server of the profile.
    """
    from graveler.cli.main import root

    script = shells.script(root(), shell)
    invocation.output.record({"graveler": {"script": script}}, [script])
    return 0
