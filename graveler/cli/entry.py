"""The entry point of the console script.

`graveler --version` needs no Click, which takes long to import.  If Click is missing, the message
says what to install for the command that was typed.
"""

import sys

from graveler import __version__
from graveler.cli.commands import extras_of


def main() -> int:
    """Run the command of this process and return the exit code."""
    if sys.argv[1:] == ["--version"]:
        print(f"graveler {__version__}")
        return 0
    try:
        from graveler.cli.main import main as run

        return run()
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        extras = extras_of(sys.argv[1:])
        print(
            f"graveler: package click is not installed: pip install 'graveler[{extras}]'",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:  # while modules are imported
        print("graveler: interrupted", file=sys.stderr)
        return 130
