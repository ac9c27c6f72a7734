"""Prints the folders of tests that `make check` runs beside those of the architecture.

They are the tests of the state and of the verbs: what sees no driver, and runs on the memory
drivers.  Which components these are, the table of layers says.
"""

import argparse

from tests.architecture.imports import LAYER_STATE, LAYER_VERBS, LAYERS


def folders() -> list[str]:
    """Folders of tests, which have the names of the components."""
    names = (name for name, layer in LAYERS.items() if layer in (LAYER_STATE, LAYER_VERBS))
    return [f"tests/{name}" for name in ("architecture", *names)]


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(*folders())
