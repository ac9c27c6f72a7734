"""Breaches of the rules of first logins by tokens; see `mutants.py`.

The family is the one of `simulator/first_logins.py`.
"""

from tests.simulation.access_mutants import AccessMutant
from tests.simulation.edits import Edit

SUBJECTS, LINKS, ENTITIES = "auth.subjects", "auth.links", "auth.entities"

FIRST_LOGIN_MUTANTS = (
    AccessMutant(
        "X1c",
        "whoever finds the user made binds a principal of its own",
        "clean",
        (Edit(SUBJECTS, "_made", "principal = user.principal(...)", ""),),
    ),
    AccessMutant(
        "X1d",
        "a user that was made without an answer, and deleted since, is made again as it was",
        "all",
        (Edit(ENTITIES, "create.change", "lost", "False"),),
    ),
    AccessMutant(
        "X3b",
        "an old token brings back its groups",
        "clean",
        (
            Edit(SUBJECTS, "_set_groups", "claims.issued <= user.groups_at", "False"),
            Edit(
                LINKS,
                "set_groups.change",
                "record.uid != user.uid or record.groups_at >= at",
                "record.uid != user.uid",
            ),
        ),
    ),
    AccessMutant(
        "X4a",
        "rows are written for the groups that the user had at first",
        "clean",
        (
            Edit(
                LINKS,
                "set_groups.change",
                "[MEMBER.place(link, user.id) for link in memberships if link not in before]",
                "[MEMBER.place(link, user.id) for link in memberships if link not in user.groups]",
            ),
        ),
    ),
)
