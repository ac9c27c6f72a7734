"""Records that change survive the late duplicate of any write that was ever sent for them."""

from collections.abc import Callable
from itertools import product
from typing import Any, Literal

import pytest

from graveler.core.clock import Ids
from graveler.core.errors import AlreadyExists, Contended, NotFound, OutcomeUnknown, Unavailable
from graveler.core.ids import BranchId, TagId
from graveler.core.records import ABSENT, Absent, MultipartUpload, Tag
from graveler.kv.memory import MemoryStore
from graveler.kv.replace import replace_row
from graveler.kv.store import Outcome, Row
from graveler.refs import garbage, repositories, tags, uploads
from graveler.refs.garbage import Retention
from graveler.refs.resolve import holders
from tests.refs.graphs import id_of
from tests.refs.stores import IDS, Counted, repository

REPO = repository()
V1 = TagId("v1")
PLACE = (b"p", b"k")


class Twins(MemoryStore):
    """Remembers every write, and sends all of them again before and after each new one.

    `unanswered`: how many of the next writes get no answer; they land if `lands`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Callable[[], object]] = []
        self.unanswered = 0
        self.lands = True

    def again(self) -> None:
        for write in self.sent:
            write()

    def set_if(self, *given: Any, **named: Any) -> Outcome:
        def write() -> Outcome:
            return MemoryStore.set_if(self, *given, **named)

        self.again()
        self.sent.append(write)
        if self.unanswered:
            self.unanswered -= 1
            if self.lands:
                write()
            raise OutcomeUnknown("no answer")
        outcome = write()
        self.again()
        return outcome


def made(kv: MemoryStore, commit: int, ids: Ids = IDS) -> Tag:
    return tags.create(kv, REPO, V1, id_of(commit), ids, holders(kv, REPO, V1).tag)


# ---- tags ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("unanswered", "lands"), list(product((0, 1, 3), (True, False))))
def test_a_tag_is_made_and_deleted_under_late_twins(unanswered: int, lands: bool) -> None:
    kv = Twins()
    kv.lands = lands
    for number in range(1, 5):
        kv.unanswered = unanswered
        assert made(kv, number) == Tag(id_of(number), 2 * number - 1)
        kv.again()
        assert tags.get(kv, REPO, V1).commit == id_of(number)
        with pytest.raises(AlreadyExists):
            made(kv, number)
        kv.unanswered = unanswered
        tags.delete(kv, REPO, V1, IDS)
        kv.again()
        assert tags.find(kv, REPO, V1) is ABSENT
        with pytest.raises(NotFound):
            tags.delete(kv, REPO, V1, IDS)


class Meddler(MemoryStore):
    """The first write lands, or not, without an answer; before the next request somebody else
    does `then`."""

    def __init__(self, lands: bool, then: Callable[["Meddler"], object]) -> None:
        super().__init__()
        self.lands = lands
        self.then: list[Callable[[Meddler], object]] = [then]

    def set_if(self, *given: Any, **named: Any) -> Outcome:
        if not self.then:
            return super().set_if(*given, **named)
        then = self.then.pop()
        if self.lands:
            super().set_if(*given, **named)
        then(self)
        raise OutcomeUnknown("no answer")


def test_a_creation_that_may_have_been_deleted_since_is_unknown() -> None:
    kv = Meddler(True, lambda kv: tags.delete(kv, REPO, V1, IDS))
    with pytest.raises(OutcomeUnknown):
        made(kv, 1)


def test_a_creation_over_which_somebody_else_made_the_tag_is_refused() -> None:
    kv = Meddler(False, lambda kv: made(kv, 2))
    with pytest.raises(AlreadyExists):
        made(kv, 1)
    assert tags.get(kv, REPO, V1).commit == id_of(2)


def test_a_creation_that_was_replaced_by_another_is_unknown() -> None:
    def replaced(kv: Meddler) -> None:
        tags.delete(kv, REPO, V1, IDS)
        made(kv, 2)

    with pytest.raises(OutcomeUnknown):
        made(Meddler(True, replaced), 1)


def test_a_deletion_does_not_take_what_was_made_since() -> None:
    kv = Meddler(True, lambda kv: made(kv, 2))
    first = kv.then.pop()
    made(kv, 1)
    kv.then.append(first)
    tags.delete(kv, REPO, V1, IDS)
    assert tags.get(kv, REPO, V1).commit == id_of(2)


def test_deleted_tags_are_not_listed_and_cost_few_requests() -> None:
    counted = Counted()
    for number in range(2_000):
        name = TagId(f"t{number:04}")
        tags.create(counted.memory, REPO, name, id_of(1), IDS)
        if number not in (0, 1_999):
            tags.delete(counted.memory, REPO, name, IDS)
    found, more = tags.list_page(counted.kv, REPO, "", "", 1)
    assert ([each.id for each in found], more) == (["t0000"], True)
    assert counted.spent() <= 6
    found, more = tags.list_page(counted.kv, REPO, "", "t0000", 1)
    assert ([each.id for each in found], more) == (["t1999"], False)


# ---- the rest ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("unanswered", "lands"), list(product((0, 1, 3), (True, False))))
def test_metadata_and_rules_stay_as_they_were_set_last(unanswered: int, lands: bool) -> None:
    kv = Twins()
    kv.lands = lands
    for number in range(1, 5):
        kv.unanswered = unanswered
        repositories.merge_metadata(kv, REPO, {"a": str(number), "b": "1"}, IDS)
        kv.again()
        assert repositories.get_metadata(kv, REPO) == {"a": str(number), "b": "1"}
        kv.unanswered = unanswered
        repositories.delete_metadata(kv, REPO, ["a", "never"], IDS)
        kv.again()
        assert repositories.get_metadata(kv, REPO) == {"b": "1"}
        kv.unanswered = unanswered
        garbage.put_retention(kv, REPO, Retention(default_days=number), IDS)
        kv.again()
        assert garbage.get_retention(kv, REPO) == Retention(default_days=number)


# ---- the loop ------------------------------------------------------------------------------------


class Refusing(MemoryStore):
    """The first write gets no answer, the second is said not to be applied."""

    def __init__(self, first: Unavailable, reads: bool = True) -> None:
        super().__init__()
        self.errors: list[Unavailable] = [Unavailable("later"), first]
        self.reads = reads

    def get(self, partition: bytes, key: bytes) -> Row | Literal[Absent.ABSENT]:
        if not self.reads and len(self.errors) == 1:
            raise Unavailable("no reads")
        return super().get(partition, key)

    def set_if(self, *given: Any, **named: Any) -> Outcome:
        raise self.errors.pop()


def test_an_unknown_outcome_is_never_reported_as_a_refusal() -> None:
    with pytest.raises(Unavailable) as refused:
        replace_row(Refusing(Unavailable("first")), PLACE, IDS, lambda row, lost: b"v")
    assert not isinstance(refused.value, OutcomeUnknown)
    for reads in (True, False):
        kv = Refusing(OutcomeUnknown("first"), reads)
        with pytest.raises(OutcomeUnknown):
            replace_row(kv, PLACE, IDS, lambda row, lost: b"v")


def test_a_record_that_keeps_changing_is_given_up() -> None:
    kv = MemoryStore()

    def change(row: Row | object, lost: bool) -> bytes:
        kv.set(*PLACE, b"theirs", IDS.stamp())
        return b"ours"

    with pytest.raises(Contended):
        replace_row(kv, PLACE, IDS, change)
    row = kv.get(*PLACE)
    assert row is not ABSENT and row.value == b"theirs"


# ---- uploads in parts ----------------------------------------------------------------------------


def test_the_record_of_a_new_upload_that_lands_late_leaves_the_plan_of_its_completion() -> None:
    class Late(MemoryStore):
        """Keeps the first write of each kind, to send it again."""

        sent: list[Callable[[], object]]

        def set(self, *given: Any, **named: Any) -> None:
            self.sent.append(lambda: MemoryStore.set(self, *given, **named))
            super().set(*given, **named)

        def set_if(self, *given: Any, **named: Any) -> Outcome:
            self.sent.append(lambda: MemoryStore.set_if(self, *given, **named))
            return super().set_if(*given, **named)

    kv = Late()
    kv.sent = []
    new = MultipartUpload("u", BranchId("main"), "a", "data/a", "stored", 1)
    uploads.put(kv, REPO, new, b"stamp")
    first = kv.sent[0]
    seen = uploads.find(kv, REPO, new.branch, new.path, new.id)
    assert seen is not ABSENT
    planned = uploads.swap(kv, REPO, seen, new._replace(parts=b"digest"), b"later")
    first()
    assert uploads.find(kv, REPO, new.branch, new.path, new.id) == planned
