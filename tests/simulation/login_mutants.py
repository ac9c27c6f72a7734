"""Breaches of the rules of logins by external principals; see `mutants.py`.

The family is the one of `simulator/logins.py`.
"""

from tests.simulation.access_mutants import AccessMutant
from tests.simulation.edits import Edit

PRINCIPALS, AUTHENTICATOR = "auth.principals", "auth.authenticator"

LOGIN_MUTANTS = (
    AccessMutant(
        "W1a",
        "a session lives as long as its user, whatever its principal does",
        "clean",
        (Edit(AUTHENTICATOR, "_holder", "view.user is ABSENT or ...", "view.user is ABSENT"),),
    ),
    AccessMutant(
        "W1b",
        "a principal that is made again has the epoch of the old one",
        "clean",
        (
            Edit(
                PRINCIPALS,
                "create",
                "Principal(...)",
                'Principal(key, "epoch", keeper.clock.now_ns())',
            ),
        ),
    ),
    AccessMutant(
        "W1c",
        "a deletion leaves the principal on the record of its user",
        "clean",
        (Edit(PRINCIPALS, "delete", "_remove(...)", ""),),
    ),
    AccessMutant(
        "W2a",
        "a deletion takes whatever row there is",
        "delay",
        (
            Edit(
                PRINCIPALS,
                "erase",
                "keeper.kv.delete(__partition__, __keys__, __versions__)",
                "keeper.kv.delete(__partition__, __keys__)",
            ),
        ),
    ),
    AccessMutant(
        "W3a",
        "a deletion leaves its row",
        "clean",
        (Edit(PRINCIPALS, "delete", "erase(...)", ""),),
    ),
)
