"""Breaches of the rules of access control; see `mutants.py`.

`cell`: the profile of faults; the family is the one of `simulator/access.py`.
"""

from typing import NamedTuple

from tests.simulation.edits import Edit

VIEWS, LINKS, DIRECTORY = "auth.access", "auth.links", "auth.directory"


class AccessMutant(NamedTuple):
    """A variant, and the profile whose seeds are searched for one that shows it.  The name begins
    with the rule that it breaks."""

    name: str
    breach: str
    profile: str
    edits: tuple[Edit, ...]


ACCESS_MUTANTS = (
    AccessMutant(
        "V1a",
        "a view is used for ever",
        "clean",
        (
            Edit(
                VIEWS,
                "Access.view",
                "now - known.read_at < limits.access_seconds_max",
                "True",
            ),
        ),
    ),
    AccessMutant(
        "V1b",
        "a view whose reading began before a change of this process is kept",
        "clean",
        (Edit(VIEWS, "Access.view", "views[user] = fresh", "self._views[user] = fresh"),),
    ),
    AccessMutant(
        "V1c",
        "a view is as old as the end of its reading",
        "clean",
        (
            Edit(
                VIEWS,
                "Access.view",
                "views[user] = fresh",
                """
                from dataclasses import replace

                fresh = replace(fresh, read_at=self._clock.steady_seconds())
                __old__
                """,
            ),
        ),
    ),
    AccessMutant(
        "V1d",
        "a refresh looks only at the record of the user",
        "clean",
        (
            Edit(
                VIEWS,
                "_read",
                "known and known.rows == rows.rows",
                "known and known.rows.get(place) == rows.rows.get(place)",
            ),
        ),
    ),
    AccessMutant(
        "V1e",
        "a key that has ended is accepted as long as its user exists",
        "clean",
        (
            Edit(
                "auth.authenticator",
                "_holder",
                "view.user is ABSENT or ...",
                "view.user is ABSENT",
            ),
        ),
    ),
    AccessMutant(
        "V1f",
        "a view is not read again after a change of this process",
        "clean",
        (Edit(VIEWS, "Access.forget", "self._drop(user)", "pass"),),
    ),
    AccessMutant(
        "V2a",
        "everybody lacks whatever is asked for",
        "clean",
        (
            Edit(
                "auth.authenticator",
                "Authenticator.authorize",
                "caller.lacks(permissions)",
                "tuple(permissions)",
            ),
        ),
    ),
    AccessMutant(
        "V3a",
        "an attachment survives its policy, and leads to whatever has the name now",
        "clean",
        (
            Edit(LINKS, "existing", "record.uid == link.uid", "True"),
            Edit(LINKS, "delete_policy", "_prune(...)", ""),
        ),
    ),
    AccessMutant(
        "V4a",
        "an index has its row only after the link",
        "crash",
        (
            Edit(LINKS, "add.linked", "index(...)", "pass"),
            Edit(
                LINKS,
                "add",
                "entities.update(*__arguments__)",
                """
                entities.update(*__arguments__)
                index(keeper, [place])
                """,
            ),
        ),
    ),
    AccessMutant(
        "V4b",
        "an addition writes its row once, and not in each round of its swap",
        "clean",
        (
            Edit(LINKS, "add.linked", "index(...)", "pass"),
            Edit(
                LINKS,
                "add",
                "seen = rows[...]",
                """
                __old__
                index(keeper, [place])
                """,
            ),
        ),
    ),
    AccessMutant(
        "V4c",
        "a removal takes whatever row there is",
        "clean",
        (
            Edit(
                LINKS,
                "remove",
                "keeper.kv.delete(__partition__, __keys__, __versions__)",
                "keeper.kv.delete(__partition__, __keys__)",
            ),
        ),
    ),
    AccessMutant(
        "V4d",
        "a removal takes its row before the link",
        "crash",
        (
            Edit(
                LINKS,
                "remove",
                "_unlink(...)",
                """
                keeper.kv.delete(place[0], [place[1]])
                __old__
                """,
            ),
        ),
    ),
    AccessMutant(
        "V4e",
        "a deletion of a group takes its rows before its links",
        "crash",
        (
            Edit(
                LINKS,
                "delete_group",
                "entities.update(...)",
                """
                _remove_rows(keeper, rows)
                __old__
                """,
            ),
        ),
    ),
    AccessMutant(
        "V4f",
        "pruning takes whatever row there is",
        "delay",
        (
            Edit(
                LINKS,
                "_prune",
                "keeper.kv.delete(__partition__, __keys__, __versions__)",
                "keeper.kv.delete(__partition__, __keys__)",
            ),
        ),
    ),
    AccessMutant(
        "V4g",
        "a row is written whatever row there is",
        "storm",
        (
            Edit(
                LINKS,
                "_write_rows",
                "replace_seen(...)",
                "keeper.kv.set(*place, _VALUE, keeper.ids.stamp())",
            ),
        ),
    ),
    AccessMutant(
        "V4h",
        "a removal leaves a record as it is that has no such link",
        "storm",
        (
            Edit(
                LINKS,
                "_unlink.unlinked",
                "links = entities.without_link(...)",
                """
                __old__
                if links == relation.links(record):
                    return ABSENT
                """,
            ),
        ),
    ),
    AccessMutant(
        "V4i",
        "a removal takes the version that the row has after the link was removed",
        "clean",
        (
            Edit(
                LINKS,
                "remove",
                "_unlink(...)",
                """
                __old__
                row = keeper.kv.get(*place)
                """,
            ),
        ),
    ),
    AccessMutant(
        "V4j",
        "an addition leaves the row that it finds",
        "clean",
        (
            Edit(
                LINKS,
                "_write_rows",
                "replace_seen(__kv__, __place__, __ids__, _fresh, __row__)",
                "replace_seen(__kv__, __place__, __ids__, _missing, __row__)",
            ),
        ),
    ),
    AccessMutant(
        "V5a",
        "an attachment survives its user",
        "clean",
        (
            Edit(
                LINKS,
                "delete_user",
                "_remove_rows(...)",
                "",
            ),
        ),
    ),
    AccessMutant(
        "V5b",
        "a membership survives its group",
        "clean",
        (Edit(LINKS, "delete_group", "_prune(...)", ""),),
    ),
    AccessMutant(
        "V5c",
        "only the first holder of a policy loses it",
        "clean",
        (Edit(LINKS, "_prune", "for key, _row in rows:\n    ...", ""),),
    ),
    AccessMutant(
        "V5d",
        "a key survives its user",
        "clean",
        (Edit(LINKS, "delete_user", "credentials.erase(...)", ""),),
    ),
)
