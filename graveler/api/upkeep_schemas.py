"""JSON schemas of retention and garbage collection.  Pure data.  Used by schemas.py."""

from collections.abc import Mapping
from typing import Final

from graveler import limits
from graveler.api.schema_words import (
    BOOLEAN,
    INTEGER,
    Schema,
    choice,
    items,
    many,
    of,
    record,
    text,
)

_FILES: Final = record("count size_bytes", count=INTEGER, size_bytes=INTEGER)
_COUNT: Final = {**INTEGER, "minimum": 0}
_TURN: Final = text("The id of the caller's turn; 409 without it")

REQUESTS: Final[Mapping[str, Schema]] = {
    "CollectionOrder": record("", dry_run={"type": "boolean", "default": True}),
    "Condemnation": record(
        "",
        metaranges=items(
            text("A metarange that the list of roots does not keep", pattern="^[0-9a-f]{64}$"),
            limits.collect_condemn_count_max,
        ),
        after=text("`following` of the previous call; for calls without metaranges"),
        amount={"type": "integer", "minimum": 1, "maximum": limits.collect_mark_count_max},
        files=_COUNT,
        size_bytes=_COUNT,
        turn=_TURN,
    ),
    "CollectionSweep": record("undone", undone=_COUNT, turn=_TURN),
    "CollectionTurnCreation": record("id", id=text("A new id: 1 to 64 letters and digits")),
}

ANSWERS: Final[Mapping[str, Schema]] = {
    "CollectionRoot": record(
        "kind name kept files objects",
        kind=choice("address", "job", "metarange"),
        kept=BOOLEAN,
        files=BOOLEAN,
        objects=choice("kept", "expiring", "due", "gone"),
    ),
    "CollectionRootList": many("CollectionRoot"),
    "Condemned": record(
        "metaranges undone following",
        metaranges=items(text("A metarange whose content may be deleted after the undo period")),
        undone={**INTEGER, "description": "The number of runs that were undone before"},
        following=text("The continuation token of the next call; empty after the last page"),
    ),
    "CollectionTurn": record("id until_time", until_time={"type": "string", "format": "date-time"}),
    "CollectionStatus": record(
        "id done update_time dry_run",
        "run candidates",
        done=BOOLEAN,
        dry_run=BOOLEAN,
        update_time={"type": "string", "format": "date-time"},
        candidates=text("The folder with the lists of files, one JSON object a line"),
        commits=INTEGER,
        commits_kept=INTEGER,
        condemned=_FILES,
        deleted=_FILES,
        error=of("Error"),
    ),
}
