"""Calls of the aws cli in the process of `called.py`: its `main`, as the command calls it."""

import io
import sys

from awscli import clidriver


def run(arguments: list[str]) -> tuple[int, str, str]:
    """Exit status, output and errors of `aws` with these arguments."""
    streams = sys.argv, sys.stdout, sys.stderr
    printed, errors = (
        io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", write_through=True) for _ in range(2)
    )
    sys.argv, sys.stdout, sys.stderr = ["aws", *arguments], printed, errors
    try:
        status = clidriver.main()
    except SystemExit as end:
        status = int(end.code or 0)
    finally:
        sys.argv, sys.stdout, sys.stderr = streams
    texts = (each.buffer.getvalue().decode() for each in (printed, errors))  # type: ignore[attr-defined]
    return (status, *texts)  # type: ignore[return-value]
