"""Uploads in parts through the service: parts, completion, its repetition, lists, expiry, kills."""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graveler.block.adapter import CREATE, Part, Update
from graveler.core import limits
from graveler.core.errors import (
    Code,
    Conflict,
    Gone,
    GravelerError,
    Invalid,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    RangeUnsatisfiable,
    Refused,
    Unavailable,
)
from graveler.core.requests import Counts, counted_blocks, counted_store
from graveler.engine.commits import commit
from graveler.engine.objects import copies, multipart, read, write
from graveler.engine.objects.copies import CopySource
from graveler.engine.objects.multipart import (
    UploadId,
    UploadList,
    UploadQuery,
    list_uploads,
    name_of,
)
from graveler.engine.objects.write import Description, Upload
from graveler.engine.ports import OpenRepository, open_repository
from graveler.engine.repositories import purge, repository
from graveler.refs import uploads
from tests.engine.overridden import Overridden
from tests.engine.storage import DAY, Storage, new_storage
from tests.support.faults import Fault, FaultyBlocks, FaultyStore, nth

MIB = 1024 * 1024
LONG = b"5" * (5 * MIB)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return new_storage(tmp_path)


def begun(repo: OpenRepository, path: str = "a", branch: str = "main", **more: Any) -> UploadId:
    return UploadId(branch, path, multipart.begin(repo, branch, path, **more))


def sent(repo: OpenRepository, upload: UploadId, *bodies: bytes) -> list[Part]:
    return [
        multipart.put_part(repo, upload, number, [body])
        for number, body in enumerate(bodies, start=1)
    ]


def checksum_of(*bodies: bytes) -> str:
    joined = b"".join(hashlib.md5(body).digest() for body in bodies)
    return f"{hashlib.md5(joined).hexdigest()}-{len(bodies)}"


def counted(repo: OpenRepository) -> tuple[OpenRepository, Counts, Counts]:
    kv, blocks = Counts(), Counts()
    ports = replace(repo, kv=counted_store(repo.kv, kv), blocks=counted_blocks(repo.blocks, blocks))
    return ports, kv, blocks


@pytest.mark.parametrize("ahead_seconds", [0, 90])
def test_an_object_is_not_older_than_its_bytes(storage: Storage, ahead_seconds: int) -> None:
    """Although the store takes a while to join, and its clock may be ahead."""
    blocks, ahead_ns = storage.blocks, ahead_seconds * limits.SECOND_NS

    def later(verb: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            storage.clock.sleep(7)
            head = verb(*arguments)
            return head._replace(modified_ns=storage.clock.now_ns() + ahead_ns)

        return call

    slow = storage.with_blocks(
        complete_upload=later(blocks.complete_upload),
        put=later(blocks.put),
        copy=later(blocks.copy),
    ).opened
    upload = begun(slow)
    began_ns = storage.clock.now_ns()
    parts = sent(slow, upload, b"one")
    entry = multipart.complete(slow, upload, parts)
    least_ns = began_ns + 7 * limits.SECOND_NS + ahead_ns
    assert entry.modified_ns >= least_ns
    assert read.stat(slow, "main", "a") == entry == multipart.complete(slow, upload, parts)
    for make in (
        lambda: write.upload(slow, "main", "b", Upload([b"x"])),
        lambda: copies.copy(slow, "main", "c", copies.Source("main", "a")),
    ):
        least_ns = storage.clock.now_ns() + 7 * limits.SECOND_NS + ahead_ns
        assert make().modified_ns >= least_ns


def restarted(storage: Storage) -> OpenRepository:
    return storage.restarted().opened


def test_an_upload_survives_restarts_and_costs_what_its_verbs_say(storage: Storage) -> None:
    write.check_branch(storage.opened, "main")  # the branch is cached
    repo, kv, blocks = counted(storage.opened)
    about = Description("text/csv", {"colour": "blue"})
    upload = begun(repo, description=about, storage_class="STANDARD_IA")
    assert (kv.snapshot(), blocks.snapshot()) == ({"get": 1, "set_if": 1}, {"create_upload": 1})
    repo, kv, blocks = counted(restarted(storage))
    first = multipart.put_part(repo, upload, 1, iter([LONG[:100], LONG[100:]]))
    assert (kv.snapshot(), blocks.snapshot()) == ({"get": 1}, {"put_part": 1})
    last = multipart.put_part(repo, upload, 7, [b"end"])
    repo, kv, blocks = counted(restarted(storage))
    _, page = multipart.list_parts(repo, upload, 0, 1_000)
    assert [(line.number, line.etag, line.size) for line in page.lines] == [
        (1, first.etag, len(LONG)),
        (7, last.etag, 3),
    ]
    assert (kv.snapshot(), blocks.snapshot()) == ({"get": 1}, {"list_parts": 1})
    with pytest.raises(NotFound):
        read.stat(repo, "main", "a")
    write.check_branch(repo, "main")
    repo, kv, blocks = counted(repo)
    entry = multipart.complete(repo, upload, [first, last])
    assert blocks.snapshot() == {"list_parts": 1, "complete_upload": 1}
    assert kv.snapshot() == {"get": 3, "set": 1, "set_if": 2}
    assert entry.checksum == checksum_of(LONG, b"end") and entry.size == len(LONG) + 3
    assert (entry.content_type, entry.metadata) == ("text/csv", {"colour": "blue"})
    assert read.stat(repo, "main", "a") == entry
    assert storage.read("main", "a") == LONG + b"end"
    assert read.storage_class(repo, entry) == "STANDARD_IA"
    commit.commit(repo, "main", commit.CommitRequest("m", "me"))
    listed = read.list_objects(repo, "main@", read.ListQuery()).lines
    assert listed[-1][0] == "a" and listed[-1][1] == read.stat(repo, "main", "a")


def test_a_completion_is_answered_again_for_a_day_and_stages_nothing(storage: Storage) -> None:
    repo = storage.opened
    upload = begun(repo)
    parts = sent(repo, upload, b"one")
    entry = multipart.complete(repo, upload, parts, CREATE)
    write.upload(repo, "main", "a", Upload([b"newer"]))
    repo, kv, blocks = counted(restarted(storage))
    assert multipart.complete(repo, upload, parts, CREATE) == entry
    assert (kv.snapshot(), blocks.snapshot()) == ({"get": 1}, {})
    assert storage.read("main", "a") == b"newer"
    other = [parts[0]._replace(etag="0" * 32)]
    for call in (
        lambda: multipart.complete(repo, upload, other),
        lambda: multipart.abort(repo, upload),
        lambda: multipart.put_part(repo, upload, 2, [b"two"]),
        lambda: multipart.list_parts(repo, upload, 0, 9),
    ):
        with pytest.raises(NotFound, match="upload not found") as unknown:
            call()
        assert unknown.value.code == Code.UPLOAD_NOT_FOUND
    assert list_uploads(repo, UploadQuery()).lines == []
    storage.clock.sleep(DAY + 1)
    with pytest.raises(NotFound):
        multipart.complete(repo, upload, parts, CREATE)
    storage.wait(1)
    assert list(uploads.list_all(repo.kv, repo.record)) == []
    assert storage.read("main", "a") == b"newer"


@pytest.mark.parametrize("mode", [CREATE, Update("0")])
def test_a_refused_condition_leaves_an_upload_that_can_be_completed(
    storage: Storage, mode: write.Condition
) -> None:
    repo = storage.opened
    upload = begun(repo)
    parts = sent(repo, upload, b"one")
    storage.put(a="there")
    with pytest.raises(PreconditionFailed):
        multipart.complete(repo, upload, parts, mode)
    assert storage.read("main", "a") == b"there"
    present = read.stat(repo, "main", "a").checksum
    assert multipart.complete(repo, upload, parts, Update(present)).size == 3
    assert storage.read("main", "a") == b"one"


def test_parts_that_cannot_be_joined_are_refused(storage: Storage) -> None:
    repo = storage.opened
    upload = begun(repo)
    one, two = sent(repo, upload, LONG, b"2")
    three = multipart.put_part(repo, upload, 3, [b"3"])
    forged, absent = two._replace(etag=one.etag), two._replace(number=4)
    for parts, code in (
        ([], Code.INVALID),
        ([two, one], Code.PARTS_NOT_ASCENDING),
        ([one, one], Code.PARTS_NOT_ASCENDING),
        ([one, forged], Code.PART_INVALID),
        ([one, absent], Code.PART_INVALID),
        ([two, three], Code.PART_TOO_SMALL),
    ):
        with pytest.raises(Invalid) as refused:
            multipart.complete(repo, upload, parts)
        assert refused.value.code == code
    for number in (0, limits.multipart_parts_count_max + 1):
        with pytest.raises(Invalid):
            multipart.put_part(repo, upload, number, [b"x"])
    multipart.complete(repo, upload, [one, three])
    assert storage.read("main", "a") == LONG + b"3"


def test_an_object_may_not_be_longer_than_objects_are(storage: Storage) -> None:
    repo = storage.opened
    upload = begun(repo)
    parts = sent(repo, upload, LONG, b"x")

    def huge(*arguments: Any) -> Any:
        page = storage.blocks.list_parts(*arguments)
        lines = tuple(line._replace(size=limits.object_size_bytes_max) for line in page.lines)
        return page._replace(lines=lines)

    with pytest.raises(Invalid, match="object exceeds") as refused:
        multipart.complete(storage.with_blocks(list_parts=huge).opened, upload, parts)
    assert refused.value.code == Code.OBJECT_TOO_LARGE


def test_parts_are_listed_page_by_page(storage: Storage) -> None:
    repo = storage.opened
    upload = begun(repo)
    parts = sent(repo, upload, LONG, LONG, b"3")

    def short(address: str, id: str, after: int, limit: int) -> Any:
        return storage.blocks.list_parts(address, id, after, 1)

    done = multipart.complete(storage.with_blocks(list_parts=short).opened, upload, parts)
    assert done.size == 2 * len(LONG) + 1


def test_a_part_is_replaced_and_may_be_empty(storage: Storage) -> None:
    repo = storage.opened
    upload = begun(repo)
    old = multipart.put_part(repo, upload, 1, [b"old"])
    new = multipart.put_part(repo, upload, 1, [])
    with pytest.raises(Invalid):
        multipart.complete(repo, upload, [old])
    assert multipart.complete(repo, upload, [new]).checksum == checksum_of(b"")
    assert storage.read("main", "a") == b""


def test_a_part_that_is_replaced_between_plan_and_join_is_refused_and_planned_anew(
    storage: Storage,
) -> None:
    repo = storage.opened
    upload = begun(repo)
    parts = sent(repo, upload, b"one")
    sent_later: list[Part] = []

    def replaced(*arguments: Any) -> Any:
        if not sent_later:
            sent_later.append(multipart.put_part(repo, upload, 1, [b"two"]))
        return storage.blocks.complete_upload(*arguments)

    between = storage.with_blocks(complete_upload=replaced).opened
    with pytest.raises(Invalid, match="parts cannot be joined") as refused:
        multipart.complete(between, upload, parts)
    assert refused.value.code == Code.PART_INVALID
    assert multipart.complete(between, upload, sent_later).size == 3
    assert storage.read("main", "a") == b"two"


def test_a_call_whose_plan_was_replaced_meanwhile_stages_nothing(storage: Storage) -> None:
    """The object at the address has the bytes of the later plan."""
    repo = storage.opened
    upload = begun(repo)
    parts = sent(repo, upload, b"one")

    def overtaken(*arguments: Any) -> Any:
        later = multipart.put_part(repo, upload, 1, [b"other"])
        with pytest.raises(Invalid, match="parts cannot be joined"):
            multipart.complete(repo, upload, parts)
        multipart.complete(repo, upload, [later])
        return storage.blocks.complete_upload(*arguments)

    with pytest.raises(NotFound) as unknown:
        multipart.complete(storage.with_blocks(complete_upload=overtaken).opened, upload, parts)
    assert unknown.value.code == Code.UPLOAD_NOT_FOUND
    assert read.stat(repo, "main", "a").size == len(b"other")
    assert storage.read("main", "a") == b"other"


def test_a_call_that_another_one_overtook_does_not_undo_a_newer_write(storage: Storage) -> None:
    repo = storage.opened
    upload = begun(repo)
    parts = sent(repo, upload, b"one")
    answers: list[Any] = []

    def overtaken(*arguments: Any) -> Any:
        answers.append(multipart.complete(repo, upload, parts))
        storage.put(a="newer")
        return storage.blocks.complete_upload(*arguments)

    late = storage.with_blocks(complete_upload=overtaken).opened
    assert multipart.complete(late, upload, parts) == answers[0]
    assert storage.read("main", "a") == b"newer"


def test_a_completion_that_meets_an_abort_after_the_join_is_unknown(storage: Storage) -> None:
    repo = storage.opened
    upload = begun(repo)
    parts = sent(repo, upload, b"one")

    def aborted(*arguments: Any) -> Any:
        storage.blocks.complete_upload(*arguments)
        multipart.abort(repo, upload)
        raise OutcomeUnknown("no answer")

    with pytest.raises(NotFound, match="upload not found"):
        multipart.complete(storage.with_blocks(complete_upload=aborted).opened, upload, parts)
    with pytest.raises(NotFound):
        read.stat(repo, "main", "a")


def test_parts_that_went_with_a_join_whose_answer_was_lost_are_not_missing(
    storage: Storage,
) -> None:
    repo = storage.opened
    upload = begun(repo)
    parts = sent(repo, upload, b"one")

    def joined(*arguments: Any) -> Any:
        storage.blocks.complete_upload(*arguments)
        raise Invalid("part was not uploaded: number=1")

    multipart.complete(storage.with_blocks(complete_upload=joined).opened, upload, parts)
    assert storage.read("main", "a") == b"one"


def test_other_parts_are_not_joined_while_a_plan_stands(storage: Storage) -> None:
    repo = storage.opened
    upload = begun(repo)
    one, two = sent(repo, upload, LONG, b"2")

    def stopped(*_: Any) -> None:
        raise Unavailable("stopped before the join")

    broken = storage.with_blocks(complete_upload=stopped).opened
    with pytest.raises(Unavailable):
        multipart.complete(broken, upload, [one, two])
    with pytest.raises(Conflict, match="begun to join other parts"):
        multipart.complete(repo, upload, [one])
    multipart.complete(repo, upload, [one, two])
    assert storage.read("main", "a") == LONG + b"2"


def test_a_part_is_copied_from_another_repository(storage: Storage) -> None:
    new = repository.NewRepository("other", "mem://bucket/other")
    other = open_repository(storage.ports, repository.create(storage.ports, new))
    write.upload(other, "main", "source", Upload([b"0123456789"]))
    source = CopySource(other, "source", read.stat(other, "main", "source"))
    upload = begun(storage.opened)
    repo, kv, blocks = counted(storage.opened)
    part = multipart.copy_part(repo, upload, 1, source, 3, 7)
    assert (kv.snapshot(), blocks.snapshot()) == ({"get": 1}, {"head": 1, "copy_part": 1})
    with pytest.raises(RangeUnsatisfiable):
        multipart.copy_part(repo, upload, 2, source, 3, 11)
    stolen = source.entry._replace(address="_lakefs/x")
    with pytest.raises(Refused):
        multipart.copy_part(repo, upload, 2, source._replace(entry=stolen), 0, 1)
    multipart.complete(repo, upload, [part])
    assert storage.read("main", "a") == b"3456"
    again = begun(repo)
    storage.blocks.delete(f"mem://bucket/other/{source.entry.address}")
    with pytest.raises(Gone, match="no data: path=source"):
        multipart.copy_part(repo, again, 1, source, 0, 1)


def test_an_upload_belongs_to_one_path_of_one_branch(storage: Storage) -> None:
    repo = storage.opened
    upload = begun(repo)
    (part,) = sent(repo, upload, b"one")
    write.upload(repo, "main", "source", Upload([b"0123456789"]))
    source = CopySource(repo, "source", read.stat(repo, "main", "source"))
    for other in (
        upload._replace(path="b"),
        upload._replace(branch="dev"),
        upload._replace(id="0" * 20),
        upload._replace(id=""),
        upload._replace(id="x" * 5_000),
    ):
        for call in (
            lambda other=other: multipart.put_part(repo, other, 1, [b"x"]),
            lambda other=other: multipart.copy_part(repo, other, 1, source, 0, 1),
            lambda other=other: multipart.list_parts(repo, other, 0, 9),
            lambda other=other: multipart.complete(repo, other, [part]),
            lambda other=other: multipart.abort(repo, other),
        ):
            with pytest.raises(NotFound) as unknown:
                call()
            assert unknown.value.code == Code.UPLOAD_NOT_FOUND
    with pytest.raises(Invalid):
        multipart.put_part(repo, upload._replace(path=""), 1, [b"x"])


def test_an_upload_that_the_object_store_discarded_is_unknown(storage: Storage) -> None:
    repo = storage.opened
    upload = begun(repo)
    (part,) = sent(repo, upload, b"one")
    write.upload(repo, "main", "source", Upload([b"0123456789"]))
    source = CopySource(repo, "source", read.stat(repo, "main", "source"))
    (record,) = uploads.list_all(repo.kv, repo.record)
    full = f"mem://bucket/lake/{record.upload.address}"
    storage.blocks.abort_upload(full, record.upload.store_id)
    for call in (
        lambda: multipart.put_part(repo, upload, 1, [b"x"]),
        lambda: multipart.copy_part(repo, upload, 1, source, 0, 1),
        lambda: multipart.list_parts(repo, upload, 0, 9),
        lambda: multipart.complete(repo, upload, [part]),
    ):
        with pytest.raises(NotFound) as unknown:
            call()
        assert unknown.value.code == Code.UPLOAD_NOT_FOUND
    multipart.abort(repo, upload)  # the record goes
    with pytest.raises(NotFound):
        multipart.abort(repo, upload)


def test_an_upload_that_was_discarded_after_its_plan_is_unknown(storage: Storage) -> None:
    repo = storage.opened
    upload = begun(repo)
    (part,) = sent(repo, upload, b"one")

    def discarded(address: str, id: str, parts: Any) -> Any:
        storage.blocks.abort_upload(address, id)
        return storage.blocks.complete_upload(address, id, parts)

    with pytest.raises(NotFound, match="upload not found"):
        multipart.complete(storage.with_blocks(complete_upload=discarded).opened, upload, [part])


def test_an_aborted_upload_leaves_nothing(storage: Storage) -> None:
    write.check_branch(storage.opened, "main")
    repo, kv, blocks = counted(storage.opened)
    upload = begun(repo)
    (part,) = sent(repo, upload, b"one")
    repo, kv, blocks = counted(storage.opened)
    multipart.abort(repo, upload)
    assert (kv.snapshot(), blocks.snapshot()) == ({"get": 2, "delete": 1}, {"abort_upload": 1})
    assert list(uploads.list_all(repo.kv, repo.record)) == []
    with pytest.raises(NotFound):
        multipart.complete(repo, upload, [part])
    assert storage.blocks._uploads == {}


def test_what_may_not_be_written_is_refused_before_an_upload_begins(storage: Storage) -> None:
    repo = storage.opened
    for path, branch, kind in (("", "main", Invalid), ("a", "", Invalid), ("a", "none", NotFound)):
        with pytest.raises(kind):
            multipart.begin(repo, branch, path)
    with pytest.raises(Invalid, match="too long for an upload in parts") as refused:
        multipart.begin(repo, "main", "x" * 1_000)
    assert refused.value.code == Code.PATH_TOO_LONG
    multipart.begin(repo, "main", "x" * 990)
    with pytest.raises(Invalid, match="storage class invalid"):
        multipart.begin(repo, "main", "a", storage_class="no class")
    with pytest.raises(Invalid):
        multipart.begin(repo, "main", "a", Description("x" * 5_000))
    sealed = replace(repo, record=replace(repo.record, read_only=True))
    upload = begun(repo)
    for call in (
        lambda: multipart.begin(sealed, "main", "a"),
        lambda: multipart.put_part(sealed, upload, 1, [b"x"]),
        lambda: multipart.complete(sealed, upload, [Part(1, "0")]),
    ):
        with pytest.raises(Refused):
            call()


# ---- lists ---------------------------------------------------------------------------------------

NAMES = ("dev/a", "main/a", "main/a", "main/a!", "main/a/b", "main/a/c", "main/b", "main/é")


def of_all(repo: OpenRepository) -> list[tuple[str, str]]:
    """Name and id of uploads of `NAMES`, in the order of a bucket."""
    made = []
    for name in NAMES:
        branch, _, path = name.partition("/")
        made.append((name, multipart.begin(repo, branch, path)))
    return sorted(made, key=lambda each: (each[0].encode(), each[1]))


def shown(found: UploadList) -> list[str]:
    return [line if isinstance(line, str) else name_of(line) for line in found.lines]


@pytest.mark.parametrize("amount", [1, 2, 3, 1_000])
@pytest.mark.parametrize("prefix", ["", "main/", "main/a", "main/a/", "x"])
@pytest.mark.parametrize("delimiter", ["", "/"])
@pytest.mark.parametrize("scan_count_max", [2, 10_000])
def test_uploads_are_listed_page_by_page(
    storage: Storage, prefix: str, delimiter: str, amount: int, scan_count_max: int
) -> None:
    repo = storage.opened
    storage.put(a="x")
    from_main(repo)
    made = of_all(repo)
    lines: list[str] = []
    for name, _ in made:
        if not name.startswith(prefix):
            continue
        end = name.find(delimiter, len(prefix)) if delimiter else -1
        line = name if end < 0 else name[: end + 1]
        if line not in lines or line == name:
            lines.append(line)
    found: list[str] = []
    query = UploadQuery(prefix, delimiter, amount=amount)
    for _ in range(30):
        page = list_uploads(repo, query, scan_count_max)
        assert len(page.lines) <= amount
        found += [line for line in shown(page) if line not in found or line[-1:] != delimiter]
        if not page.more:
            break
        query = query._replace(after=page.after, after_id=page.after_id)
    assert found == lines


def from_main(repo: OpenRepository) -> None:
    from graveler.engine import names as branches

    branches.create_branch(repo, "dev", "main")


def test_a_list_begins_behind_an_upload_or_behind_a_name(storage: Storage) -> None:
    repo = storage.opened
    ids = sorted(begun(repo).id for _ in range(3))
    last = begun(repo, "b").id
    listed = list_uploads(repo, UploadQuery(after="main/a", after_id=ids[0])).lines
    assert [line.id for line in listed if not isinstance(line, str)] == [*ids[1:], last]
    assert shown(list_uploads(repo, UploadQuery(after="main/a"))) == ["main/b"]
    assert list_uploads(repo, UploadQuery(amount=0)) == ([], True, "", "")


# ---- expiry --------------------------------------------------------------------------------------


def test_an_upload_expires_and_the_janitor_discards_its_parts(storage: Storage) -> None:
    repo = storage.opened
    upload = begun(repo)
    sent(repo, upload, b"one")
    storage.wait(limits.multipart_upload_seconds - 60)
    assert len(multipart.list_parts(repo, upload, 0, 9)[1].lines) == 1
    storage.clock.sleep(120)
    with pytest.raises(NotFound):
        multipart.put_part(repo, upload, 1, [b"x"])
    assert list_uploads(repo, UploadQuery()).lines == []
    storage.wait(1)
    assert list(uploads.list_all(repo.kv, repo.record)) == []
    assert storage.blocks._uploads == {}


def test_a_janitor_without_the_right_or_the_time_leaves_what_it_cannot_do(storage: Storage) -> None:
    from graveler.engine import janitor

    repo = storage.opened
    for path in ("a", "b"):
        begun(repo, path)
    storage.clock.sleep(limits.multipart_upload_seconds + 1)

    def slow(*_: Any) -> None:
        storage.clock.sleep(100)
        raise Refused("not allowed")

    late = storage.with_blocks(abort_upload=slow).opened
    assert janitor.sweep(late, 50).uploads == 1
    assert len(list(uploads.list_all(repo.kv, repo.record))) == 1
    assert janitor.sweep(late).uploads == 1
    assert len(storage.blocks._uploads) == 2


def test_garbage_collection_leaves_the_object_of_a_planned_upload(storage: Storage) -> None:
    """The object store may date the object back to the beginning of the upload."""
    repo = storage.opened
    upload = begun(repo)
    parts = sent(repo, upload, b"one")

    def joined(*arguments: Any) -> Any:
        storage.blocks.complete_upload(*arguments)
        raise Unavailable("stopped before the row")

    with pytest.raises(Unavailable):
        multipart.complete(storage.with_blocks(complete_upload=joined).opened, upload, parts)
    for _ in range(5):  # as long as a repetition may stage the object
        storage.wait(DAY + 60)
        assert storage.collect().condemned == ()
    assert multipart.complete(repo, upload, parts).size == 3
    assert storage.read("main", "a") == b"one"


def test_a_purge_discards_the_parts_of_a_deleted_repository(storage: Storage) -> None:
    repo = storage.opened
    sent(repo, begun(repo), b"one")
    sent(repo, begun(repo, "b"), b"one")
    repository.delete(storage.opened)
    storage.clock.sleep(3 * DAY)
    (gone,) = purge.list_due(storage.ports)
    assert not purge.purge(storage.ports, gone, 0)
    assert purge.purge(storage.ports, gone)
    assert storage.blocks._uploads == {}


# ---- faults and kills ----------------------------------------------------------------------------


class Killed(BaseException):
    """The process dies."""


class Dying:
    """Ports whose n-th request, counted over both, kills the process before or after it."""

    def __init__(self, at: int, applied: bool) -> None:
        self.left = at
        self.applied = applied

    def kill(self, call: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            if self.applied:
                call(*arguments, **more)
            raise Killed
        return call(*arguments, **more)

    def around(self, port: Any) -> Any:
        def verb(name: str) -> Callable[..., Any]:
            def called(*arguments: Any, **more: Any) -> Any:
                return self.kill(getattr(port, name), *arguments, **more)

            return called

        names = [name for name in dir(port) if not name.startswith("_")]
        return Overridden(port, **{name: verb(name) for name in names})


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
def test_a_kill_at_every_request_leaves_an_upload_that_a_retry_completes(
    storage: Storage, applied: bool
) -> None:
    """From the first part on: parts, join and row."""
    storage.put(kept="x")
    for at in range(1, 100):
        path = f"p{at}"
        upload = begun(storage.opened, path)
        dying = Dying(at, applied)
        ports = restarted(storage)
        mortal = replace(ports, kv=dying.around(ports.kv), blocks=dying.around(ports.blocks))
        bodies = (LONG, b"end")
        try:
            multipart.complete(mortal, upload, sent(mortal, upload, *bodies))
            break
        except Killed:
            shown_now = read.list_objects(restarted(storage), "main", read.ListQuery(path)).lines
            assert all(entry.size == len(LONG) + 3 for _, entry in shown_now)  # type: ignore[union-attr]
        repo = restarted(storage)
        parts = [
            Part(number, hashlib.md5(body).hexdigest()) for number, body in enumerate(bodies, 1)
        ]
        try:
            entry = multipart.complete(repo, upload, parts)
        except Invalid as error:  # the kill came before the parts were there
            assert error.code == Code.PART_INVALID
            entry = multipart.complete(repo, upload, sent(repo, upload, *bodies))
        assert entry.checksum == checksum_of(*bodies)
        assert read.stat(repo, "main", path) == entry
        assert storage.read("main", path) == LONG + b"end"
    assert at > 10
    assert storage.blocks._uploads == {}


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
def test_a_kill_during_begin_or_abort_leaves_nothing_visible(
    storage: Storage, applied: bool
) -> None:
    for at in range(1, 20):
        dying = Dying(at, applied)
        ports = restarted(storage)
        mortal = replace(ports, kv=dying.around(ports.kv), blocks=dying.around(ports.blocks))
        upload = UploadId("", "", "")
        try:
            upload = begun(mortal, f"p{at}")
            multipart.abort(mortal, upload)
            break
        except Killed:
            if upload.id:
                with suppress(NotFound):  # the record was removed before the kill
                    multipart.abort(restarted(storage), upload)
    assert at > 4
    repo = storage.opened
    for record in uploads.list_all(repo.kv, repo.record):  # begun, and not answered
        multipart.abort(repo, UploadId("main", record.upload.path, record.upload.id))
    assert read.list_objects(repo, "main", read.ListQuery()).lines == []


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.DROPPED, Fault.LOST, Fault.LATE])
def test_each_request_of_a_completion_fails_and_a_repetition_ends_well(
    storage: Storage, fault: Fault
) -> None:
    for at in range(1, 40):
        repo = storage.opened
        path = f"p{at}"
        upload = begun(repo, path)
        parts = sent(repo, upload, b"one")
        plan = nth({at: fault})
        kv, blocks = FaultyStore(repo.kv, plan), FaultyBlocks(repo.blocks, plan)
        faulty = replace(repo, kv=kv, blocks=blocks)
        try:
            multipart.complete(faulty, upload, parts)
        except GravelerError as error:
            assert isinstance(error, Unavailable | NotFound), repr(error)
        kv.land()
        for late in blocks.late:
            with suppress(NotFound):  # the join was sent again
                late()
        entry = multipart.complete(repo, upload, parts)
        assert read.stat(repo, "main", path) == entry
        assert storage.read("main", path) == b"one"
        if kv.requests < at:
            break
    assert 6 < at < 39


def test_a_join_whose_answers_are_lost_twice_is_of_unknown_outcome(storage: Storage) -> None:
    repo = storage.opened
    upload = begun(repo)
    parts = sent(repo, upload, b"one")

    def lost(*_: Any) -> None:
        raise OutcomeUnknown("no answer")

    with pytest.raises(OutcomeUnknown):
        multipart.complete(storage.with_blocks(complete_upload=lost).opened, upload, parts)
    multipart.complete(repo, upload, parts)


def test_a_join_that_lands_after_its_plan_was_withdrawn_is_not_taken_for_the_next_one(
    storage: Storage,
) -> None:
    """The object has the bytes of the old parts; the entry would have the size of the new ones."""
    repo = storage.opened
    upload = begun(repo)
    old = sent(repo, upload, b"one")
    late: list[tuple[Any, ...]] = []

    def on_its_way(*arguments: Any) -> None:
        late.append(arguments)
        raise OutcomeUnknown("no answer")

    with pytest.raises(OutcomeUnknown):
        multipart.complete(storage.with_blocks(complete_upload=on_its_way).opened, upload, old)
    new = sent(repo, upload, b"another one")
    with pytest.raises(Invalid, match="cannot be joined"):
        multipart.complete(repo, upload, old)

    def landed(*_: Any) -> None:
        address, id, _parts = late[0]
        storage.blocks.put(address, [b"one"])
        storage.blocks.abort_upload(address, id)
        raise NotFound("upload not found")

    with pytest.raises(NotFound, match="upload not found"):
        multipart.complete(storage.with_blocks(complete_upload=landed).opened, upload, new)
    with pytest.raises(NotFound):
        read.stat(repo, "main", "a")


def test_a_completion_that_never_wins_its_record_is_of_unknown_outcome(storage: Storage) -> None:
    repo = storage.opened
    upload = begun(repo)
    parts = sent(repo, upload, b"one")
    losing = storage.with_kv(set_if=lambda *_, **more: lost_answer()).opened
    with pytest.raises(OutcomeUnknown, match="kept losing"):
        multipart.complete(losing, upload, parts)
    (record,) = uploads.list_all(repo.kv, repo.record)
    assert not record.upload.entry
    calls: list[int] = []

    def after_the_plan(*arguments: Any, **more: Any) -> Any:
        calls.append(1)
        return repo.kv.set_if(*arguments, **more) if len(calls) == 1 else lost_answer()

    with pytest.raises(OutcomeUnknown, match="not confirmed"):
        multipart.complete(storage.with_kv(set_if=after_the_plan).opened, upload, parts)
    multipart.complete(repo, upload, parts)
    assert storage.read("main", "a") == b"one"


def lost_answer() -> Any:
    raise OutcomeUnknown("no answer")


def test_an_etag_that_is_no_md5_counts_as_text() -> None:
    opaque = "opaque-etag"
    expected = hashlib.md5(opaque.encode() + bytes(16)).hexdigest()
    assert multipart.joined_checksum([opaque, "0" * 32]) == f"{expected}-2"
