"""The entry point of the console script.

`graveler --help` is printed without Click, which takes long to import.  Every other command needs
Click; if it is missing, the message says what to install.
"""

import sys

from graveler.cli import overview


def main() -> int:
    """Run the command of this process and return the exit code."""
    try:
        return _help() if overview.is_asked(sys.argv[1:]) else _run()
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        print(
            "graveler: package click is not installed: it comes with pip install 'graveler[cli]'",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:  # while modules are imported
        print("graveler: interrupted", file=sys.stderr)
        return 130


def _help() -> int:
    try:
        print(overview.text(), flush=True)
    except OSError as error:
        from graveler.cli.main import refused

        return refused(error)
    return 0


def _run() -> int:
    from graveler.cli.main import main as run

    return run()
