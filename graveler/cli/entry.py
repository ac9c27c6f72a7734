"""The entry point of the console script.

`graveler --help` and `graveler --version` are printed without Click, which takes long to import.
Every other command needs Click; if it is missing, the message says what to install for the command
that was typed.
"""

import sys

from graveler import __version__
from graveler.cli import overview


def main() -> int:
    """Run the command of this process and return the exit code."""
    try:
        if overview.is_asked(sys.argv[1:]):
            return _print(overview.text())
        if sys.argv[1:] == [*overview.VERSION.names]:
            return _print(f"graveler {__version__}")
        return _run()
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        extras = overview.extras_of(sys.argv[1:])
        print(
            f"graveler: package click is not installed: pip install 'graveler[{extras}]'",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:  # while modules are imported
        print("graveler: interrupted", file=sys.stderr)
        return 130


def _print(text: str) -> int:
    try:
        print(text, flush=True)
    except OSError as error:
        from graveler.cli.main import refused

        return refused(error)
    return 0


def _run() -> int:
    from graveler.cli.main import main as run

    return run()
