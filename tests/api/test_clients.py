"""Unmodified clients of lakeFS do their everyday work: with bytes that go through the service, and
by signed URLs, which clients use as soon as the service knows its public URL."""

import subprocess
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lakefs
import lakefs_sdk
import pandas
import pytest
from lakefs.client import Client as LakeFS
from lakefs.exceptions import BadRequestException, ConflictException, ObjectExistsException
from lakefs_spec import LakeFSFileSystem

from tests.api.serving import ADMINISTRATOR, Served, served


@pytest.fixture(scope="module", params=[False, True], ids=["through the service", "signed"])
def live(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, import_root: Path
) -> Iterator[Served]:
    store = tmp_path_factory.mktemp("clients") / "store"
    with served(store, import_roots=[import_root], public=request.param) as running:
        yield running


@pytest.fixture
def wrapper(live: Served) -> LakeFS:
    return LakeFS(
        host=live.client.url,
        username=ADMINISTRATOR.access_key_id,
        password=ADMINISTRATOR.secret_access_key,
    )


@pytest.fixture
def repository(wrapper: LakeFS, live: Served) -> Any:
    name = f"client-{next(live.names)}"
    return lakefs.Repository(name, client=wrapper).create(f"local://{name}/data")


def test_objects_of_the_wrapper(repository: Any) -> None:
    main = repository.branch("main")
    written = main.object("a b/ünï+.txt").upload("text ä", metadata={"k": "v"})
    assert written.reader(mode="r").read() == "text ä"
    assert written.stat().metadata == {"k": "v"}
    with main.object("big").writer(mode="wb") as writer:
        for number in range(100):
            writer.write(bytes([number]) * 10_000)
    with main.object("big").reader(mode="rb") as reader:
        reader.seek(500_000)
        assert reader.read(3) == b"222"
        assert len(reader.read()) == 499_997
        assert reader.read(10) == b""
    with pytest.raises(ObjectExistsException):
        main.object("big").upload("x", mode="x")
    assert main.object("fresh").upload("x", mode="x").exists()
    assert sorted(each.path for each in main.objects()) == ["a b/ünï+.txt", "big", "fresh"]
    assert [each.path for each in main.objects(delimiter="/")] == ["a b/", "big", "fresh"]
    copied = main.object("big").copy("main", "copied")
    assert copied.stat().size_bytes == 1_000_000
    main.object("big").delete()
    assert not main.object("big").exists()
    main.delete_objects(["copied", "never"])
    assert len(list(main.uncommitted())) == 2


def test_the_wrapper_asks_which_way_bytes_go(live: Served, repository: Any) -> None:
    signs = bool(live.service.settings.front.public_url)
    written = repository.branch("main").object("a").upload(b"x")
    assert written.reader(mode="rb").pre_sign == signs
    address = written.stat(pre_sign=True).physical_address
    assert address.startswith(live.client.url + "/_presigned/")


def test_signed_urls_in_other_hands(live: Served, repository: Any, tmp_path: Path) -> None:
    """curl, urllib and pandas."""
    body = b"id,amount\n" + b"".join(b"%d,%d\n" % (each, each * each) for each in range(90_000))
    (tmp_path / "body").write_bytes(body)
    where = f"/repositories/{repository.id}/branches/main/staging/backing"
    given = live.client.send("GET", where, {"path": "a.csv", "presign": "true"}).json

    def curl(*arguments: str) -> bytes:
        command = ["curl", "--silent", "--show-error", "--fail", "--max-time", "30", *arguments]
        return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout

    head = curl("--dump-header", "-", "-T", str(tmp_path / "body"), given["presigned_url"])
    etag = next(line for line in head.decode().splitlines() if line.lower().startswith("etag:"))
    link = {"staging": given, "checksum": etag.partition(":")[2].strip(), "size_bytes": len(body)}
    assert live.client.send("PUT", where, {"path": "a.csv"}, body=link).status == 200
    url = repository.branch("main").object("a.csv").stat(pre_sign=True).physical_address
    assert curl(url) == body
    assert curl("--range", "5-1000", url) == body[5:1001]
    assert curl("--range", "-7", url) == body[-7:]
    assert f"content-length: {len(body)}" in curl("--head", url).decode().lower()
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert answer.read() == body
    ranged = urllib.request.Request(url, headers={"Range": "bytes=600000-"})
    with urllib.request.urlopen(ranged, timeout=30) as answer:
        assert (answer.status, answer.read()) == (206, body[600_000:])
    table = pandas.read_csv(url)
    assert table.columns.tolist() == ["id", "amount"]
    assert (table.amount == table.id**2).all() and len(table) == 90_000


def test_signed_writes_of_the_wrapper(repository: Any) -> None:
    main = repository.branch("main")
    written = main.object("signed").upload(b"signed bytes", pre_sign=True)
    assert written.reader(mode="rb", pre_sign=True).read() == b"signed bytes"
    assert main.object("signed").reader(mode="rb", pre_sign=False).read() == b"signed bytes"


def test_history_of_the_wrapper(repository: Any) -> None:
    main = repository.branch("main")
    main.object("a").upload("1")
    first = main.commit("first", metadata={"k": "v"}).get_commit()
    with pytest.raises(BadRequestException, match="no changes"):
        main.commit("nothing")
    dev = repository.branch("dev").create("main")
    with pytest.raises(ConflictException):
        repository.branch("dev").create("main")
    dev.object("b").upload("2")
    dev.commit("second")
    assert [each.path for each in main.diff(other_ref=dev)] == ["b"]
    reference = dev.merge_into(main)
    assert main.get_commit().id == reference
    main.object("a").upload("bad")
    bad = main.commit("bad").get_commit()
    main.revert(bad.id)
    assert main.object("a").reader(mode="r").read() == "1"
    assert main.get_commit().message == f"Revert {bad.id}"
    tag = repository.tag("v1").create(first.id)
    assert tag.get_commit().id == first.id
    assert [each.id for each in repository.tags()] == ["v1"]
    assert sorted(each.id for each in repository.branches()) == ["dev", "main"]
    messages = [each.message for each in main.log()]
    assert messages[0].startswith("Revert") and messages[-1] == "Repository created"
    for amount in (1, 2):  # of a page
        assert [each.message for each in main.log(amount=amount)] == messages
    main.cherry_pick(bad.id)
    assert main.object("a").reader(mode="r").read() == "bad"
    main.object("a").upload("dropped")
    main.reset_changes()
    assert main.object("a").reader(mode="r").read() == "bad"
    assert repository.metadata == {}
    dev.delete()
    repository.delete()


def test_the_version_is_three_integers(sdk: lakefs_sdk.ApiClient) -> None:
    config = lakefs_sdk.ConfigApi(sdk).get_config()
    with pytest.warns(DeprecationWarning):
        told = lakefs_sdk.InternalApi(sdk).get_lake_fs_version()
    assert config.version_config is not None
    assert config.version_config.version == told.version
    assert len([int(part) for part in str(told.version).split(".")]) == 3
    assert told.version_context == "lakeFS"


def test_a_namespace_may_be_the_prefix_of_the_configuration_a_slash_and_a_name(
    wrapper: LakeFS, live: Served
) -> None:
    name = f"below-{next(live.names)}"
    prefix = wrapper.storage_config.default_namespace_prefix
    made = lakefs.Repository(name, client=wrapper).create(f"{prefix}/{name}")
    assert made.properties.storage_namespace == f"local://{name}"
    made.branch("main").object("a").upload("text")
    assert made.branch("main").object("a").reader(mode="r").read() == "text"
    with pytest.raises(BadRequestException, match="namespace already in use"):
        lakefs.Repository(f"{name}-again", client=wrapper).create(f"local://{name}")


def test_an_uncommitted_deletion_has_no_size_and_a_committed_one_has(repository: Any) -> None:
    main = repository.branch("main")
    main.object("a").upload("four")
    main.object("kept").upload("kept")
    before = main.commit("two objects").get_commit()
    main.object("a").delete()
    main.object("b").upload("fives")
    found = [(each.type, each.path, each.size_bytes) for each in main.uncommitted()]
    assert found == [("removed", "a", 0), ("added", "b", 5)]
    main.commit("one each")
    for kind in ("two_dot", "three_dot"):
        found = [
            (each.type, each.path, each.size_bytes)
            for each in repository.ref(before.id).diff(main, type=kind)
        ]
        assert found == [("removed", "a", 4), ("added", "b", 5)]


def test_a_branch_that_was_emptied_is_merged_into_a_new_one(repository: Any) -> None:
    main = repository.branch("main")
    dev = repository.branch("dev").create("main")
    dev.object("a").upload("1")
    dev.commit("something")
    dev.object("a").delete()
    emptied = dev.commit("nothing").get_commit()
    merged = repository.commit(dev.merge_into(main)).get_commit()
    assert (merged.parents[1], merged.meta_range_id) == (emptied.id, emptied.meta_range_id)
    with pytest.raises(BadRequestException, match="no changes"):
        dev.merge_into(main)


def test_the_epoch_is_a_date(repository: Any, sdk: lakefs_sdk.ApiClient) -> None:
    name, commits = repository.id, lakefs_sdk.CommitsApi(sdk)
    repository.branch("main").object("a").upload("1")
    made = repository.branch("main").commit("dated", date=0).get_commit()
    assert made.creation_date == 0
    creation = lakefs_sdk.CommitCreation(message="m", date=0, allow_empty=True)
    assert commits.commit(name, "main", creation).creation_date == 0
    undated = lakefs_sdk.CommitCreation(message="m", allow_empty=True)
    assert commits.commit(name, "main", undated).creation_date > 0
    staged = lakefs_sdk.ObjectStageCreation(
        physical_address=f"local://{name}/data/written-by-another-tool",
        checksum="sum",
        size_bytes=1,
        mtime=0,
    )
    internal = lakefs_sdk.InternalApi(sdk)
    with pytest.warns(DeprecationWarning):
        assert internal.stage_object(name, "main", "b", staged).mtime == 0
        staged.mtime = None
        assert internal.stage_object(name, "main", "b", staged).mtime > 0


def test_a_pick_keeps_the_metadata_unless_it_is_told_some(
    repository: Any, sdk: lakefs_sdk.ApiClient
) -> None:
    main, api = repository.branch("main"), lakefs_sdk.BranchesApi(sdk)
    dev = repository.branch("dev").create("main")
    dev.object("a").upload("1")
    picked = dev.commit("with metadata", metadata={"k": "v"}).get_commit()

    def pick(**overrides: Any) -> dict[str, str]:
        wanted = lakefs_sdk.CherryPickCreation(
            ref=picked.id, commit_overrides=lakefs_sdk.CommitOverrides(**overrides)
        )
        made = api.cherry_pick(repository.id, "main", wanted)
        main.revert(made.id)
        return {key: value for key, value in made.metadata.items() if "cherry" not in key}

    assert pick(message="another") == {"k": "v"}
    assert pick(metadata={"other": "w"}) == {"other": "w"}
    assert pick(metadata={}) == {}


def test_a_transaction_of_the_wrapper(repository: Any) -> None:
    main = repository.branch("main")
    with main.transact(commit_message="all at once") as transaction:
        transaction.object("a").upload("1")
        transaction.object("b").upload("2")
    assert sorted(each.path for each in main.objects()) == ["a", "b"]
    assert list(main.uncommitted()) == []


def test_an_import_of_the_wrapper(repository: Any, import_root: Any) -> None:
    folder = import_root / repository.id
    folder.mkdir(exist_ok=True)
    (folder / "a").write_bytes(b"a")
    job = repository.branch("main").import_data("imported", metadata={"k": "v"})
    job.prefix(f"local://{folder}/", destination="in/").start()
    found = job.wait()
    assert found.completed and found.ingested_objects == 1


def test_the_file_system(live: Served, repository: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fs = LakeFSFileSystem(
            host=live.client.url,
            username=ADMINISTRATOR.access_key_id,
            password=ADMINISTRATOR.secret_access_key,
            use_listings_cache=False,
        )
        root = f"lakefs://{repository.id}/main"
        with fs.open(f"{root}/d/a.txt", "wb") as file:
            file.write(b"bytes")
        assert fs.cat(f"{root}/d/a.txt") == b"bytes"
        assert fs.info(f"{root}/d/a.txt")["size"] == 5
        assert fs.exists(f"{root}/d") and not fs.exists(f"{root}/none")
        assert [each["type"] for each in fs.ls(f"{root}/")] == ["directory"]
        with fs.open(f"{root}/d/a.txt", "rb") as file:
            file.seek(2)
            assert file.read() == b"tes"
        fs.cp_file(f"{root}/d/a.txt", f"{root}/d/b.txt")
        repository.branch("main").commit("before the transaction")
        with fs.transaction(repository.id, "main") as transaction:
            with fs.open(f"lakefs://{repository.id}/{transaction.branch.id}/t", "w") as file:
                file.write("t")
            transaction.commit(message="from a transaction")
        assert sorted(fs.find(root + "/")) == [
            f"{repository.id}/main/{each}" for each in ("d/a.txt", "d/b.txt", "t")
        ]
        fs.rm(f"{root}/d", recursive=True)
        assert fs.find(root + "/") == [f"{repository.id}/main/t"]
        with pytest.raises(FileNotFoundError):
            fs.cat(f"{root}/d/a.txt")
