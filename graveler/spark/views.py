"""Tables of a ref as temporary views of a session, for SQL without a jar."""

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from graveler.core.errors import Invalid
from graveler.lake.dataset import is_data
from graveler.lake.ref import Commit

if TYPE_CHECKING:
    from graveler.spark.lake import Lake

_LOOKED_AT: Final = 100  # files of a folder whose names may say that it is a table
_ENDS: Final = (".parquet", ".orc", ".csv", ".json")


def made(lake: "Lake", address: str, folders: Sequence[str]) -> dict[str, str]:
    """See `Lake.use`."""
    ref, path = lake.at(address)
    if path.strip("/"):
        raise Invalid(f"use takes REPOSITORY/REF, and folders after it: {address!r}")
    commit = ref.pin()
    chosen = [folder.strip("/") for folder in folders] or _tables(commit)
    names = [folder.rpartition("/")[2] for folder in chosen]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Invalid(f"two folders would be one view: {','.join(twice)}: use them one at a time")
    views: dict[str, str] = {}
    for name, folder in zip(names, chosen, strict=True):
        frame = commit.table(folder, format=_format(commit, folder)).read()
        frame.createOrReplaceTempView("`" + name.replace("`", "``") + "`")
        views[name] = f"{commit.repository.name}/{commit.name}/{folder}"
    return views


def _tables(commit: Commit) -> list[str]:
    """The folders of the first level that have data files."""
    folders = [folder.strip("/") for folder in commit.folders()]
    return [each for each in folders if is_data(each) and _format(commit, each)]


def _format(commit: Commit, folder: str) -> str:
    """The format that the names of the first files say, which lie in the folder or in those of
    partitions; empty if they say none."""
    for entry in islice(commit.list(f"{folder}/"), _LOOKED_AT):
        path = entry.path[len(folder) + 1 :]
        *between, name = path.split("/")
        end = "." + name.rpartition(".")[2].lower()
        if end in _ENDS and all("=" in part for part in between) and is_data(path):
            return end[1:]
    return ""
