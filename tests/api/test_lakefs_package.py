"""Every public method of the package `lakefs`, unmodified, is called against `graveler serve`."""

import io
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import boto3
import lakefs
import lakefs.client
import pytest
from lakefs.client import Client, ServerConfiguration
from lakefs.config import ClientConfig
from lakefs.exceptions import ConflictException, ServerException, TransactionException

from tests.api.public_methods import profiled, public
from tests.cli.service import KEY, SECRET, Service, serving

# Not calls of a service, or not reachable.
ELSEWHERE = {
    "LakeFSIOBase.close": "readers and writers have their own",
    "cli_run": "downloads the server of lakeFS",
    "find_or_download_binary": "downloads the server of lakeFS",
    "run": "runs the server of lakeFS",
    "run_binary": "runs the server of lakeFS",
}
SOON = timedelta(milliseconds=20)


@pytest.mark.slow
def test_every_public_method_is_answered(tmp_path: Path) -> None:
    methods = public(lakefs)
    assert len(methods) > 100
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a").write_bytes(b"imported")
    with serving(tmp_path / "store", "--import-root", str(folder)) as service, profiled() as seen:
        client = Client(host=service.url, username=KEY, password=SECRET)
        repository = _repositories(client)
        main = repository.branch("main")
        _server(client, service)
        _writes(main)
        _reads(main)
        _history(repository)
        _transactions(main)
        _imports(main, folder)
        _identities(service)
        repository.delete()
    called = {name for name, code in methods.items() if code in seen}
    assert sorted(set(methods) - called) == sorted(ELSEWHERE)


def test_a_method_that_is_not_called_is_found() -> None:
    nobody = Client(host="http://127.0.0.1:1", username=KEY, password=SECRET)
    with profiled() as seen:
        lakefs.repository("lake", client=nobody).branch("main")
    code = public(lakefs)
    assert code["Repository.branch"] in seen
    assert code["Repository.tag"] not in seen


def _repositories(client: Client) -> lakefs.Repository:
    made = lakefs.repository("lake", client=client).create("local://lake/x")
    again = made.create("local://lake/x", exist_ok=True)
    assert again.id == made.id == "lake"
    assert [each.id for each in lakefs.repositories(client=client)] == ["lake"]
    assert made.properties.default_branch == "main"
    assert made.metadata == {}
    assert made.ref("main").get_commit().id == made.branch("main").head.id
    return made


def _server(client: Client, service: Service) -> None:
    assert client.version == ServerConfiguration(client).version
    assert client.storage_config == client.storage_config_by_id()
    told = ServerConfiguration(client)
    assert told.storage_config == told.storage_config_by_id() == client.storage_config
    assert client.config.host.startswith(service.url)
    assert client.sdk_client.config_api.get_config().version_config.version == client.version
    assert client.config.get_auth_type() is ClientConfig.AuthType.CREDENTIALS
    assert client.config.iam_provider is None
    assert client.reset_time is None
    client.reset_time = None


def _refused(*calls: Callable[[], object]) -> None:
    for call in calls:
        with pytest.raises(io.UnsupportedOperation):
            call()


def _writes(main: lakefs.Branch) -> None:
    writer = main.object("written").writer(mode="wb", metadata={"k": "v"})
    assert (writer.name, writer.mode, writer.closed) == ("written", "wb", False)
    assert (writer.readable(), writer.seekable(), writer.writable()) == (False, False, True)
    assert not writer.isatty()
    _refused(
        writer.read,
        writer.fileno,
        writer.readline,
        writer.readlines,
        writer.truncate,
        lambda: writer.seek(0),
        lambda: writer.writelines([b"x"]),
    )
    writer.pre_sign = False
    assert not writer.pre_sign
    assert writer.write(b"one\ntwo\n") == writer.tell() == 8
    writer.flush()
    writer.close()
    assert writer.closed
    dropped = main.object("dropped").writer()
    dropped.write("x")
    dropped.discard()
    assert not main.object("dropped").exists()
    written = main.object("written")
    assert (written.repo, written.ref, written.path) == ("lake", "main", "written")
    assert written.stat().metadata == {"k": "v"}
    assert written.storage_id() == ""
    assert written.copy("main", "copied").exists()
    main.object("copied").delete()
    main.object("more").upload(b"more", mode="xb")
    main.delete_objects(["more"])
    assert [each.path for each in main.uncommitted()] == ["written"]


def _reads(main: lakefs.Branch) -> None:
    with main.object("written").reader(mode="rb") as reader:
        assert (reader.readable(), reader.seekable(), reader.writable()) == (True, True, False)
        assert reader.read(3) == b"one"
        reader.pre_sign = False
        assert not reader.pre_sign
        assert (reader.seek(0), reader.readline()) == (0, b"one\n")
        assert (reader.seek(-4, io.SEEK_END), reader.read()) == (4, b"two\n")
        reader.flush()
        _refused(lambda: reader.write(b"x"))
    reader.close()
    assert reader.closed
    assert [each.path for each in main.objects()] == ["written"]


def _history(repository: lakefs.Repository) -> None:
    main = repository.branch("main")
    first = main.commit("first", metadata={"k": "v"})
    assert (first.repo_id, first.get_commit().message) == ("lake", "first")
    dev = repository.branch("dev").create(main)
    dev.object("b").upload("b")
    second = dev.commit("second")
    assert [each.path for each in main.diff(dev)] == ["b"]
    assert dev.merge_into(main) == main.head.id
    main.revert(main.head.id, parent_number=1)
    assert main.cherry_pick(second).message == "second"
    main.object("b").upload("changed")
    main.reset_changes("object", "b")
    assert repository.commit(second.id).object("b").reader(mode="r").read() == "b"
    assert main.object("b").reader(mode="r").read() == "b"
    tag = repository.tag("v1").create(first)
    assert [each.id for each in repository.tags()] == ["v1"]
    assert [each.message for each in tag.log()] == ["first", "Repository created"]
    assert main.get_commit().id == main.head.id
    assert main.id == "main"
    assert sorted(each.id for each in repository.branches()) == ["dev", "main"]
    tag.delete()
    dev.delete()


def _transactions(main: lakefs.Branch) -> None:
    with main.transact(commit_message="said before", commit_metadata={"a": "b"}) as transaction:
        assert (transaction.commit_message, transaction.source_id) == ("said before", "main")
        assert (transaction.commit_metadata, transaction.tag) == ({"a": "b"}, None)
        transaction.commit_message, transaction.commit_metadata = "said after", {"c": "d"}
        transaction.tag = "transacted"
        transaction.object("t/1").upload("1")
        transaction.object("t/2").upload("2")
        assert [each.path for each in main.objects(prefix="t/")] == []
    assert [each.path for each in main.objects(prefix="t/")] == ["t/1", "t/2"]
    made = main.get_commit().parents[-1]
    assert lakefs.Reference("lake", made, main._client).get_commit().metadata == {"c": "d"}
    assert lakefs.Tag("lake", "transacted", main._client).get_commit().id == main.head.id
    before = main.head.id
    with (
        pytest.raises(RuntimeError, match="on purpose"),
        main.transact(commit_message="never") as transaction,
    ):
        transaction.object("never").upload("x")
        raise RuntimeError("on purpose")
    assert main.head.id == before
    with (
        pytest.raises(TransactionException),
        main.transact(commit_message="overtaken") as transaction,
    ):
        transaction.object("t/1").upload("one side")
        main.object("t/1").upload("the other side")
        main.commit("overtakes")
    assert main.object("t/1").reader(mode="r").read() == "the other side"
    assert not [each.id for each in lakefs.Repository("lake", main._client).branches()
                if each.id.startswith("tx-")]  # fmt: skip


def _imports(main: lakefs.Branch, folder: Path) -> None:
    begun = main.import_data("imported", metadata={"k": "v"})
    begun.prefix(f"local://{folder}/", destination="in/")
    begun.object(f"local://{folder}/a", destination="one")
    assert begun.start() == begun.import_id
    assert begun.wait(SOON).completed
    assert begun.status().ingested_objects == 2
    again = main.import_data("again").object(f"local://{folder}/a", destination="two")
    assert again.run(SOON).completed
    with pytest.raises(ConflictException, match="already completed"):
        again.cancel()
    assert [each.path for each in main.objects(prefix="two")] == ["two"]


def _identities(service: Service) -> None:
    """Without such an identity, the service refuses."""
    known = {"host": service.url, "username": KEY, "password": SECRET}
    with pytest.raises(ServerException):
        lakefs.client.from_web_identity("code", "state", "https://example.com/", **known)
    session = boto3.Session("AKIAEXAMPLE", "secret", region_name="us-east-1")
    with pytest.raises(ServerException):
        lakefs.client.from_aws_role(session, **known)
