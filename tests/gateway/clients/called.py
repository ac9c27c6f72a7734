"""The process of `elsewhere.py`: calls what it is told, and answers with what comes out.

It runs in the environment of the clients and imports nothing of the tests.  Requests and answers
are pickled, on the standard streams as they were at the start; what a client prints goes to the
standard error.
"""

import argparse
import os
import pickle
import sys
from importlib import import_module
from typing import Any


def found(target: str, kept: dict[str, Any]) -> Any:
    """`module:name.name`, or `@kept.name` of something that is kept."""
    if target.startswith("@"):
        first, *names = target[1:].split(".")
        value = kept[first]
    else:
        module, _, path = target.partition(":")
        value, names = import_module(module), path.split(".")
    for name in names:
        value = getattr(value, name)
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folders", nargs="*", help="where further modules are")
    sys.path.extend(
        parser.parse_args().folders
    )  # last, so that the packages of this environment come first
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    kept: dict[str, Any] = {}
    while True:
        try:
            target, arguments, named, keep = pickle.load(requests)
        except EOFError:
            return
        try:
            value = found(target, kept)(*arguments, **named)
            if keep:
                kept[keep], value = value, None
            answer = pickle.dumps((value, None))
        except Exception as error:
            kind = ", ".join(each.__name__ for each in type(error).__mro__)
            answer = pickle.dumps((None, (kind, str(error))))
        answers.write(answer)
        answers.flush()


if __name__ == "__main__":
    main()
