"""What lakeFS's Spark client is told to keep: uncommitted addresses, and commits in use."""

import csv
import io
import json
import re
from base64 import urlsafe_b64encode
from typing import Any

import pytest

from graveler.engine import names
from graveler.engine.gc import prepare, retention
from graveler.engine.gc.prepare import PreparedPage
from graveler.engine.objects import addresses, read
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository
from graveler.errors import Conflict, Invalid, NotFound, Refused
from graveler.refs.gc.retention import Retention
from tests.engine.storage import DAY, Storage

HEADER = ["commit_id", "expired", "metarange_id"]
ADDRESS = re.compile(rb"data/[0-9a-v]{20}/[0-9a-v]{20}(?:,[-\w]{24})?", re.ASCII)


def lines(storage: Storage) -> list[list[str]]:
    """The list of commits, without its header."""
    made = prepare.commits(storage.opened)
    text = b"".join(storage.blocks.get(made.commits).chunks).decode()
    header, *rest = csv.reader(io.StringIO(text))
    assert header == HEADER
    assert made.commits == (
        f"mem://bucket/lake/_lakefs/retention/gc/commits/run_id={made.run}/commits.csv"
    )
    return rest


def pages(storage: Storage, amount: int = 1_000) -> tuple[PreparedPage, list[str]]:
    """The last page of a run, and all addresses of its files."""
    page = prepare.uncommitted(storage.opened, "", amount)
    while page.following:
        page = prepare.uncommitted(storage.opened, page.following, amount)
    if not page.folder:
        return page, []
    found = storage.blocks.list(page.folder, "", 1_000).lines
    return page, [each for line in found for each in column(storage, line.address)]


def column(storage: Storage, place: str) -> list[str]:
    """The addresses in a file; `tests/spark/gc/test_prepared.py` reads one with Arrow."""
    raw = b"".join(storage.blocks.get(place).chunks)
    return [found.decode() for found in ADDRESS.findall(raw)]


def address_of(storage: Storage, path: str, ref: str = "main") -> str:
    return read.stat(storage.opened, ref, path).address


def test_uncommitted_addresses_are_all_that_are_staged_or_handed_out(storage: Storage) -> None:
    storage.commit(a="1")
    names.create_branch(storage.opened, "side", "main")
    storage.put("side", b="2")
    storage.put(c="3")
    handed = addresses.hand_out(storage.opened, "main", "d").removeprefix("mem://bucket/lake/")
    page, found = pages(storage)
    staged = {address_of(storage, "b", "side"), address_of(storage, "c")}
    assert {*staged, handed} <= set(found) and address_of(storage, "a") not in staged
    folder = f"mem://bucket/lake/_lakefs/retention/gc/uncommitted/{page.run}/uncommitted/"
    assert page.folder == folder


def test_pages_of_a_run_are_files_of_one_folder(storage: Storage) -> None:
    for number in range(7):
        storage.put(**{f"p{number}": f"{number}"})
    _, whole = pages(storage)
    page, found = pages(storage, 3)
    assert sorted(found) == sorted(whole) and len(found) == 7
    assert len(storage.blocks.list(page.folder, "", 100).lines) >= 3


def test_without_uncommitted_changes_there_is_no_folder(storage: Storage) -> None:
    storage.commit(a="1")
    storage.wait(DAY)
    page, _ = pages(storage)
    assert page.folder == "" and len(page.run) == 20


def test_an_entry_is_in_one_of_the_lists_whatever_happens_between(storage: Storage) -> None:
    retention.set_rule(storage.opened, Retention(default_days=1))
    storage.put(a="1")
    _, before = pages(storage)
    used = address_of(storage, "a")
    metarange = storage.commit()
    assert used in before and metarange in {id for id, *_ in lines(storage)}


def test_a_commit_is_in_use_until_a_collection_has_given_it_up(storage: Storage) -> None:
    retention.set_rule(storage.opened, Retention(default_days=1))
    old, head = storage.commit(a="1"), ""
    for number in range(3):
        storage.wait(2 * DAY)
        head = storage.commit(a=f"later {number}")
    listed = lines(storage)
    assert {old, head} <= {id for id, *_ in listed}
    assert all(expired == "false" and metarange for _, expired, metarange in listed)
    storage.collected()
    after = {id for id, *_ in lines(storage)}
    assert old not in after and head in after


def test_without_a_rule_and_without_refs_nothing_is_prepared(storage: Storage) -> None:
    with pytest.raises(NotFound):
        prepare.commits(storage.opened)
    new = NewRepository("bare", "mem://bucket/bare", bare=True)
    bare = open_repository(storage.ports, repository.create(storage.ports, new))
    retention.set_rule(bare, Retention(default_days=1))
    with pytest.raises(Conflict, match="restore its refs first"):
        prepare.commits(bare)


def test_a_namespace_without_a_claim_is_not_prepared(storage: Storage) -> None:
    retention.set_rule(storage.opened, Retention(default_days=1))
    storage.blocks.put("mem://bucket/lake/_lakefs/dummy", [b"another one"])
    with pytest.raises(Refused):
        prepare.commits(storage.opened)
    with pytest.raises(Refused):
        prepare.uncommitted(storage.opened, "")


def token(*values: Any) -> str:
    return urlsafe_b64encode(json.dumps(values).encode()).decode()


RUN = "0" * 20
PLACE = urlsafe_b64encode(json.dumps(["staged", "", 0, ""]).encode()).decode()
LATER = urlsafe_b64encode(json.dumps(["content", "", 0, ""]).encode()).decode()


@pytest.mark.parametrize(
    "after",
    ["x", "bm90", token(), token("../x", 0, PLACE), token(RUN, "0", PLACE), token(RUN, -1, PLACE),
     token(RUN, 10**9, PLACE), token(RUN, 0, 1), token(RUN, 0, ""), token(RUN, 0, "x"),
     token(RUN, 0, LATER), token(1, 0, PLACE)],
)  # fmt: skip
def test_a_token_that_no_page_returned_is_refused(storage: Storage, after: str) -> None:
    with pytest.raises(Invalid):
        prepare.uncommitted(storage.opened, after)
