"""The entry point of the console script, which says what to install if Click is missing."""

import sys


def main() -> int:
    """Run the command of this process and return the exit code."""
    try:
        from graveler.cli.main import main as run
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        print(
            "graveler: package click is not installed: it comes with pip install 'graveler[cli]'",
            file=sys.stderr,
        )
        return 1
    return run()
