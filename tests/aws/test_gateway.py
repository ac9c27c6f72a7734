"""`graveler gateway` as its users run it: a process on the table and the bucket of a deployment."""

import hashlib
import http.client
import json
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import boto3
import click
import httpx
import pytest
from botocore.client import Config
from botocore.exceptions import ClientError

from graveler.assembly.aws import Aws, open_aws
from graveler.audit.logs import LogGroupTrail
from graveler.audit.trail import Question
from graveler.auth import accounts, credentials
from graveler.auth.authenticator import Authenticator
from graveler.auth.credentials import NewCredential
from graveler.cli.commands import serve as gateway_command
from graveler.cli.commands.serve import options_of
from graveler.cli.main import main
from graveler.cli.support.serve_options import GatewayOptions
from graveler.core.aws import AwsSession
from graveler.core.clock import SystemIds
from graveler.core.errors import Invalid
from graveler.core.records import ABSENT, AddressType
from graveler.core.settings import Deployment, TlsFiles
from graveler.engine.commits import commit
from graveler.engine.commits.commit import CommitRequest
from graveler.engine.objects import addresses, read, write
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository
from tests.aws.engines import ROOT
from tests.aws.lake import make_lake
from tests.cli.service import Service, run, started
from tests.fault_proxy import FaultProxy, Forward, Reply, Request, fault_proxy, lost_request
from tests.gateway.serving import S3Client
from tests.waiting import PATIENCE_SECONDS, until

LOCK = ROOT / "requirements" / "gateway.txt"
PART = 5 << 20
LONG = (8 << 20) + 1  # a body of more than one request to S3
MINUTE_NS = 60 * 10**9
FAR_AWAY = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_DEFAULT_REGION": "us-east-1"}


class Stack(NamedTuple):
    """What a template makes, with the repository `lake`, behind a proxy that counts."""

    name: str
    proxy: FaultProxy
    aws: Aws
    deployment: Deployment

    @property
    def first(self) -> NewCredential:
        return self.aws.secret.first

    @property
    def variables(self) -> dict[str, str]:
        keys = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "test")
        return {**keys, "AWS_ENDPOINT_URL": self.proxy.url, "AWS_DEFAULT_REGION": "us-east-1"}

    def commit(self) -> str:
        """As another process of the deployment commits: the id of the commit."""
        repo = open_repository(self.aws.ports, repository.get(self.aws.ports, "lake"))
        return str(commit.commit(repo, "main", CommitRequest("files", "me")).id)

    def counted(self, send: Callable[[], object]) -> dict[str, int]:
        """The requests to DynamoDB and S3 while `send` runs, by operation."""
        before = len(self.proxy.operations)
        send()
        counts: dict[str, int] = {}
        for each in self.proxy.operations[before:]:
            counts[each] = counts.get(each, 0) + 1
        return counts


@contextmanager
def made(engine: str, session: AwsSession, name: str, cache: Path) -> Iterator[Stack]:
    with pytest.MonkeyPatch.context() as patch, fault_proxy(engine) as proxy:
        for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(variable, "test")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        make_lake(session, name)
        found = Deployment(name, name, (name,), cache_folder=str(cache), endpoint_url=engine)
        aws = open_aws(found)
        repository.create(aws.ports, NewRepository("lake", f"s3://{name}/lake"))
        yield Stack(name, proxy, aws, found)


@pytest.fixture(scope="module")
def stack(
    engine: str,
    session: AwsSession,
    fresh_name: Callable[[], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stack]:
    with made(engine, session, fresh_name(), tmp_path_factory.mktemp("cache")) as opened:
        yield opened


@contextmanager
def gateway(stack: Stack, *more: str, prelude: str = "") -> Iterator[Service]:
    """The command on a free port."""
    arguments = ("gateway", "--stack", stack.name, "--bucket", stack.name, "--listen=127.0.0.1:0")
    with started(
        *arguments, *more, credentials=None, prelude=prelude, variables=stack.variables
    ) as service:
        yield service


@pytest.fixture(scope="module")
def served(stack: Stack) -> Iterator[Service]:
    """A process that has the packages of its image and no other."""
    prelude = (
        "from pathlib import Path; from tests.aws.locked_packages import import_only; "
        f"import_only(Path({str(LOCK)!r})); "
    )
    with gateway(stack, prelude=prelude) as service:
        yield service


def boto(service: Service, key: NewCredential) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=service.url,
        aws_access_key_id=key.access_key_id,
        aws_secret_access_key=key.secret_access_key,
        region_name="eu-central-1",
        config=Config(retries={"max_attempts": 0}, s3={"addressing_style": "path"}),
    )


@pytest.fixture(scope="module")
def s3(served: Service, stack: Stack) -> Any:
    return boto(served, stack.first)


def code(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


def content(s3: Any, key: str, **more: Any) -> bytes:
    body: bytes = s3.get_object(Bucket="lake", Key=key, **more)["Body"].read()
    return body


# ---- what clients do -----------------------------------------------------------------------------


def test_objects_are_written_read_and_committed(s3: Any, stack: Stack) -> None:
    text = b"id,amount\n1,10\n" * 1_000
    put = s3.put_object(Bucket="lake", Key="main/in/a.csv", Body=text, Metadata={"by": "boto3"})
    assert put["ETag"] == f'"{hashlib.md5(text).hexdigest()}"'
    got = s3.get_object(Bucket="lake", Key="main/in/a.csv", Range="bytes=3-8")
    assert got["Body"].read() == text[3:9] and got["ContentRange"] == f"bytes 3-8/{len(text)}"
    head = s3.head_object(Bucket="lake", Key="main/in/a.csv")
    assert (head["ContentLength"], head["Metadata"]) == (len(text), {"by": "boto3"})

    copied = {"Bucket": "lake", "Key": "main/in/a.csv"}
    s3.copy_object(Bucket="lake", Key="main/out/b.csv", CopySource=copied)
    listed = s3.list_objects_v2(Bucket="lake", Prefix="main/", Delimiter="/")
    assert [each["Prefix"] for each in listed["CommonPrefixes"]] == ["main/in/", "main/out/"]

    first = stack.commit()
    s3.delete_object(Bucket="lake", Key="main/in/a.csv")
    with pytest.raises(ClientError) as gone:
        s3.get_object(Bucket="lake", Key="main/in/a.csv")
    assert code(gone) == "NoSuchKey"
    assert content(s3, f"{first}/in/a.csv") == content(s3, "main/out/b.csv") == text
    deleted = s3.delete_objects(Bucket="lake", Delete={"Objects": [{"Key": "main/out/b.csv"}]})
    assert [each["Key"] for each in deleted["Deleted"]] == ["main/out/b.csv"]


def test_the_branch_decides_about_conditions(s3: Any) -> None:
    where = {"Bucket": "lake", "Key": "main/conditional"}
    etag = s3.put_object(**where, Body=b"1", IfNoneMatch="*")["ETag"]
    for condition in ({"IfNoneMatch": "*"}, {"IfMatch": '"no such etag"'}):
        with pytest.raises(ClientError) as refused:
            s3.put_object(**where, Body=b"2", **condition)
        assert code(refused) == "PreconditionFailed"
    s3.put_object(**where, Body=b"3", IfMatch=etag)
    assert content(s3, "main/conditional") == b"3"


def test_a_body_of_more_than_one_request_to_the_bucket_streams(s3: Any) -> None:
    text = bytes(range(256)) * (LONG // 256) + b"!"
    put = s3.put_object(Bucket="lake", Key="main/long", Body=text)
    assert put["ETag"] == f'"{hashlib.md5(text).hexdigest()}"'
    assert content(s3, "main/long") == text


def test_the_bucket_keeps_the_storage_class_of_an_object(s3: Any, stack: Stack) -> None:
    where = {"Bucket": "lake", "Key": "main/classes"}
    repo = open_repository(stack.aws.ports, repository.get(stack.aws.ports, "lake"))

    def storage_class() -> str:
        return read.storage_class(repo, read.stat(repo, "main", "classes"))

    for size in (3, LONG):
        s3.put_object(**where, Body=b"x" * size, StorageClass="STANDARD_IA")
        assert storage_class() == "STANDARD_IA"
        s3.put_object(**where, Body=b"x", StorageClass="STANDARD")
        assert storage_class() == ""
    id = s3.create_multipart_upload(**where, StorageClass="STANDARD_IA")["UploadId"]
    part = s3.upload_part(**where, UploadId=id, PartNumber=1, Body=b"x")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    s3.complete_multipart_upload(**where, UploadId=id, MultipartUpload=parts)
    assert storage_class() == "STANDARD_IA"


def test_the_etag_of_an_encrypted_object_is_said_to_be_no_md5(
    s3: Any, stack: Stack, session: AwsSession
) -> None:
    """Only where the bucket gave the etag that is shown."""
    repo = open_repository(stack.aws.ports, repository.get(stack.aws.ports, "lake"))
    bucket = session.client("s3")
    by_kms = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "alias/lake"}
    shown = {}
    for path, how in (("kms", by_kms), ("own", {"ServerSideEncryption": "AES256"})):
        place = {"Bucket": stack.name, "Key": f"outside/{path}"}
        etag = bucket.put_object(**place, Body=b"x", **how)["ETag"].strip('"')
        for checksum in (etag, "0" * 32):
            link = addresses.Link(f"s3://{stack.name}/outside/{path}", checksum, 1)
            entry = addresses.described_link(repo, link, link.address)
            write.stage(repo, "main", path, entry._replace(address_type=AddressType.FULL))
            answer = s3.get_object(Bucket="lake", Key=f"main/{path}")
            shown[path, checksum == etag] = answer.get("ServerSideEncryption")
    assert shown.pop(("kms", True)) == "aws:kms"
    assert set(shown.values()) == {None}


def test_an_upload_in_parts_is_one_of_the_bucket(s3: Any) -> None:
    where = {"Bucket": "lake", "Key": "main/parts"}
    upload = {**where, "UploadId": s3.create_multipart_upload(**where)["UploadId"]}
    s3.put_object(Bucket="lake", Key="main/source", Body=b"x" * PART)
    source = {"Bucket": "lake", "Key": "main/source"}
    copied = s3.upload_part_copy(**upload, PartNumber=1, CopySource=source)["CopyPartResult"]
    sent = s3.upload_part(**upload, PartNumber=2, Body=b"end")
    assert [part["Size"] for part in s3.list_parts(**upload)["Parts"]] == [PART, 3]
    parts = [{"PartNumber": 1, "ETag": copied["ETag"]}, {"PartNumber": 2, "ETag": sent["ETag"]}]
    done = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    digests = b"".join(hashlib.md5(body).digest() for body in (b"x" * PART, b"end"))
    etag = f'"{hashlib.md5(digests).hexdigest()}-2"'
    (listed,) = s3.list_objects_v2(Bucket="lake", Prefix="main/parts")["Contents"]
    read_whole = s3.get_object(**where)
    answers = (done, s3.head_object(**where), read_whole, listed)
    assert [answer["ETag"] for answer in answers] == [etag] * 4
    assert read_whole["Body"].read() == b"x" * PART + b"end"
    assert content(s3, "main/parts", IfMatch=etag, Range="bytes=1-1") == b"x"


def test_a_branch_and_its_uncommitted_changes_are_one_with_the_functions(
    s3: Any, stack: Stack
) -> None:
    """What one process of the deployment acknowledges, all others show."""
    s3.put_object(Bucket="lake", Key="main/shared", Body=b"1")
    first = stack.commit()
    s3.put_object(Bucket="lake", Key="main/shared", Body=b"2")
    second = stack.commit()
    assert (content(s3, f"{first}/shared"), content(s3, f"{second}/shared")) == (b"1", b"2")
    assert content(s3, "main/shared") == b"2"


# ---- what it costs -------------------------------------------------------------------------------


def test_requests_of_each_operation(s3: Any, stack: Stack) -> None:
    """The table and the bucket are asked as often as by the API.  Rights and records that a process
    keeps for seconds are warm, because each operation is sent until they are."""
    where = {"Bucket": "lake", "Key": "main/counted"}
    source = {"Bucket": "lake", "Key": "main/counted"}
    s3.put_object(**where, Body=b"1")
    expected: list[tuple[Callable[[], object], dict[str, int]]] = [
        (lambda: s3.put_object(**where, Body=b"1"), {"GetItem": 1, "PutItem": 1, "PUT": 1}),
        (lambda: s3.head_object(**where), {"GetItem": 2}),
        (lambda: s3.get_object(**where)["Body"].read(), {"GetItem": 2, "GET": 1}),
        (lambda: s3.list_objects_v2(Bucket="lake", Prefix="main/"), {"GetItem": 1, "Query": 1}),
        (
            lambda: s3.copy_object(Bucket="lake", Key="main/copy", CopySource=source),
            {"GetItem": 3, "PutItem": 1, "HEAD": 1, "PUT": 1},
        ),
        (lambda: s3.delete_object(**where), {"GetItem": 1, "PutItem": 1}),
    ]
    for send, counts in expected:
        found = [stack.counted(send) for _ in range(5)]
        assert counts in found, (counts, found)
        assert min(sum(each.values()) for each in found) == sum(counts.values())


# ---- what else it answers ------------------------------------------------------------------------


def test_it_is_ready_while_table_and_bucket_answer(served: Service, stack: Stack) -> None:
    """Alive it is in any case.  An answer is kept for a second."""

    def status(path: str) -> int:
        return httpx.get(served.url + path, timeout=PATIENCE_SECONDS).status_code

    for operation in ("GetItem", "GET"):  # the table, the bucket
        until(lambda: status("/_health/ready") == 200, "ready")
        stack.proxy.plan(*[lost_request] * 200, operation=operation)
        until(lambda: status("/_health/ready") == 503, f"not ready without {operation}")
        assert status("/_health") == 200
        stack.proxy.calm()
    until(lambda: status("/_health/ready") == 200, "ready again")


def test_a_table_that_answers_late_keeps_nobody_else_waiting(
    served: Service, stack: Stack, s3: Any
) -> None:
    """No look-up runs on the event loop, as it does on a store of this machine."""
    entered, released = threading.Event(), threading.Event()

    def late(request: Request, forward: Forward) -> Reply | None:
        entered.set()
        assert released.wait(PATIENCE_SECONDS)
        return forward(request)

    s3.put_object(Bucket="lake", Key="main/late", Body=b"1")
    for operation, send in (("GetItem", s3.head_object), ("GET", s3.get_object)):
        entered.clear()
        released.clear()
        stack.proxy.plan(late, operation=operation)
        with ThreadPoolExecutor(1) as threads:
            answer = threads.submit(send, Bucket="lake", Key="main/late")
            assert entered.wait(PATIENCE_SECONDS)
            assert httpx.get(served.url + "/_health", timeout=PATIENCE_SECONDS).status_code == 200
            assert not answer.done()
            released.set()
            assert answer.result()["ContentLength"] == 1


def test_the_api_and_its_pages_are_not_served(served: Service, stack: Stack) -> None:
    auth = (stack.first.access_key_id, stack.first.secret_access_key)
    for path in ("/", "/docs", "/api/v1/repositories", "/api/v1/setup_lakefs", "/lake/main/x"):
        answer = httpx.get(served.url + path)
        assert (answer.status_code, "<Code>AccessDenied<" in answer.text) == (403, True), path
        answer = httpx.get(served.url + path, auth=auth)
        assert (answer.status_code, "<Code>InvalidRequest<" in answer.text) == (400, True), path
    assert httpx.post(served.url + "/_health").status_code == 404


def test_metrics_need_the_credentials_of_the_api(served: Service, stack: Stack, s3: Any) -> None:
    s3.list_buckets()
    url, key = served.url + "/metrics", stack.first
    assert httpx.get(url).status_code == 401
    auth, counted = (key.access_key_id, key.secret_access_key), 'operation="s3:ListBuckets"'
    until(lambda: f'{counted},status="200"' in httpx.get(url, auth=auth).text, "it is counted")


def test_a_user_has_a_rate_if_one_is_set(stack: Stack) -> None:
    """Ten at once: the client is answered as by S3, so that it waits."""
    with gateway(stack, "--user-requests-per-second", "1") as service:
        s3 = boto(service, stack.first)
        with pytest.raises(ClientError) as refused:
            for _ in range(100):
                s3.list_buckets()
        assert code(refused) == "SlowDown"
        assert refused.value.response["ResponseMetadata"]["HTTPHeaders"]["retry-after"] == "1"


def test_a_repository_may_be_named_as_a_path_of_operators(stack: Stack, s3: Any) -> None:
    new = NewRepository("metrics", f"s3://{stack.name}/metrics")
    repository.create(stack.aws.ports, new)
    s3.put_object(Bucket="metrics", Key="main/a", Body=b"1")
    listed = s3.list_objects_v2(Bucket="metrics", Prefix="main/")
    assert [each["Key"] for each in listed["Contents"]] == ["main/a"]


# ---- how it ends, and what it leaves -------------------------------------------------------------


def test_a_process_goes_on_over_a_rotation_of_the_secret(
    engine: str,
    session: AwsSession,
    fresh_name: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with made(engine, session, fresh_name(), tmp_path) as own, gateway(own) as service:
        monkeypatch.setenv("AWS_ENDPOINT_URL", engine)
        used, unused = own.first, new_key(own)
        boto(service, used).put_object(Bucket="lake", Key="main/a", Body=b"1")
        client = session.client("secretsmanager")
        client.put_secret_value(SecretId=own.name, SecretString=SystemIds().unique(120))
        client.close()
        assert main(("credentials", "rotate", "--stack", own.name)) == 0, capsys.readouterr().err
        for key in (unused, used, new_key(own._replace(aws=open_aws(own.deployment)))):
            boto(service, key).head_object(Bucket="lake", Key="main/a")


def new_key(stack: Stack) -> NewCredential:
    """A fresh key of the administrator, as another process of the deployment makes it."""
    ports, secret = stack.aws.ports, stack.aws.secret
    keeper = accounts.keeper(ports.kv, ports.clock, stack.aws.ids, secret.key, before=secret.before)
    auth = Authenticator(keeper, secret.first)
    assert auth.account() is not ABSENT
    return credentials.create(keeper, accounts.USER_DEFAULT)[0]


def test_its_log_is_json_and_the_audit_trail_of_the_deployment_reads_it(
    stack: Stack, session: AwsSession
) -> None:
    with gateway(stack) as service:
        s3 = boto(service, stack.first)
        s3.put_object(Bucket="lake", Key="main/audited", Body=b"1")
        with pytest.raises(ClientError):
            s3.put_object(Bucket="lake", Key="none/x", Body=b"1")
        code, out, err = service.end(signal.SIGTERM)
    assert (code, out) == (0, "graveler: stopped\n")
    lines = [json.loads(line) for line in err.splitlines()]
    requests = [line for line in lines if line["location"] == "graveler.access"]
    answers = [(line["operation"], line["status"]) for line in requests]
    assert answers == [("s3:PutObject", 200), ("s3:PutObject", 404)]
    assert stack.first.secret_access_key not in err and "audited" not in str(requests)

    logs, group = session.client("logs"), f"/aws/lambda/{stack.name}-api"
    logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName="gateway/s3/task")
    now_ns = stack.aws.ports.clock.now_ns()
    events = [{"timestamp": now_ns // 10**6, "message": line} for line in err.splitlines()]
    logs.put_log_events(logGroupName=group, logStreamName="gateway/s3/task", logEvents=events)
    trail = LogGroupTrail(session, group, stack.aws.ports.clock)
    asked = Question(since_ns=now_ns - MINUTE_NS, until_ns=now_ns + MINUTE_NS)
    page = trail.read(asked, "", 10)
    assert [(line.operation, line.status) for line in page.lines] == [
        ("s3:PutObject", 200),
        ("s3:PutObject", 404),
    ]


def test_a_stop_waits_for_the_body_of_a_request_that_has_begun(stack: Stack) -> None:
    with gateway(stack) as service:
        where = urlsplit(service.url)
        assert where.hostname and where.port
        s3 = S3Client(where.hostname, where.port, stack.first)
        body = b"abcdef" * 30_000
        headers = s3.signed("PUT", "/lake/main/slow", body=body)
        connection = http.client.HTTPConnection(s3.host, s3.port, timeout=PATIENCE_SECONDS)
        connection.putrequest("PUT", "/lake/main/slow")
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            connection.putheader(name, value)
        connection.endheaders(body[:100_000])
        assert s3.send("GET", "/").status == 200  # so the first bytes have arrived, too
        service.process.send_signal(signal.SIGTERM)
        until(lambda: refused(where.hostname, where.port), "it listens no more")
        connection.send(body[100_000:])
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"")
        connection.close()
        assert service.ended()[0] == 0
    stored = hashlib.md5(body).hexdigest()
    with gateway(stack) as service:
        head = boto(service, stack.first).head_object(Bucket="lake", Key="main/slow")
    assert head["ETag"] == f'"{stored}"'


def refused(host: str | None, port: int | None) -> bool:
    try:
        socket.create_connection((host, port), timeout=PATIENCE_SECONDS).close()
    except OSError:
        return True
    return False


def test_nothing_of_its_cache_remains(stack: Stack, tmp_path: Path) -> None:
    arguments = ("gateway", "--stack", stack.name, "--bucket", stack.name)
    variables = {**stack.variables, "TMPDIR": str(tmp_path)}
    with started(
        *arguments, "--listen", "127.0.0.1:0", credentials=None, variables=variables
    ) as service:
        [folder] = tmp_path.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert service.end()[0] == 0
    assert list(tmp_path.iterdir()) == []


# ---- what it refuses -----------------------------------------------------------------------------


def said(*arguments: str, **variables: str) -> str:
    """The only line that a command says when it does not start."""
    kept = {"AWS_EC2_METADATA_DISABLED": "true", **variables}
    ran = run("gateway", "--listen", "127.0.0.1:0", *arguments, **kept)
    assert (ran.returncode, ran.stdout) == (1, ""), ran
    [line] = ran.stderr.splitlines()
    assert line.startswith("graveler gateway: ")
    return line


def test_what_does_not_answer_is_named_with_its_remedy(stack: Stack) -> None:
    name, keys = stack.name, stack.variables
    text = said("--stack", "none", "--bucket", name, **keys)
    assert "secret of the deployment not read" in text and "secret=none" in text
    text = said("--stack", name, "--bucket", "none-such", **keys)
    assert "bucket not reached" in text and "bucket=none-such" in text and "NoSuchBucket" in text
    text = said("--bucket", name, **keys, GRAVELER_TABLE="none-such", GRAVELER_SECRET=name)
    assert "table not reached" in text and "table=none-such" in text


def test_without_credentials_of_aws_it_does_not_start() -> None:
    names = ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")
    keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    nothing = dict.fromkeys(names, "/none") | dict.fromkeys(keys, "") | FAR_AWAY
    where = ("--stack", "lake", "--bucket", "lake")
    assert "Unable to locate credentials" in said(*where, **nothing)


def options(*arguments: str, **variables: str) -> GatewayOptions:
    return options_of(
        gateway_command.gateway.make_context("gateway", list(arguments)).params, variables
    )


def test_a_deployment_that_is_not_named_is_refused() -> None:
    with pytest.raises(Invalid, match="missing=GRAVELER_TABLE,GRAVELER_SECRET,GRAVELER_BUCKETS; "):
        options()
    with pytest.raises(Invalid, match="missing=GRAVELER_BUCKETS; name the deployment by --stack"):
        options("--stack", "lake")
    with pytest.raises(click.BadParameter, match="0 is not in the range x>=1"):
        options("--memory-mib", "0")


def test_another_bucket_that_does_not_answer_stops_nothing_else(stack: Stack) -> None:
    with gateway(stack, "--bucket", "none-such") as service:
        assert boto(service, stack.first).list_buckets()["Buckets"]
        _, _, err = service.end()
    assert "bucket not reached" in err and "bucket=none-such" in err


def test_it_listens_on_this_machine_alone_unless_it_is_told_otherwise() -> None:
    others = {"GRAVELER_SECRET": "other", "GRAVELER_BUCKETS": "other"}
    found = options("--stack", "lake", "--bucket", "a", "--bucket=b", **others)
    assert found.listen.url == "http://127.0.0.1:8000"
    named = found.deployment
    assert (named.table, named.secret, named.buckets) == ("lake", "lake", ("a", "b"))
    assert not found.s3.signature_v2 and not found.front.trusted_proxies and found.owns_cache


def test_other_machines_need_tls_unless_plain_http_is_allowed() -> None:
    """As for an embedded store."""
    text = said("--stack=lake", "--bucket=lake", "--listen", "0.0.0.0:0", **FAR_AWAY)
    assert "--insecure-http" in text
    elsewhere = {"client": ("10.0.0.9", 1), "scheme": "http", "headers": []}
    strict = options("--stack", "lake", "--bucket", "a")
    allowed = options("--stack", "lake", "--bucket", "a", "--insecure-http")
    secured = options(*("--stack=lake", "--bucket=a", "--tls-certificate=c", "--tls-key=k"))
    assert secured.listen.scheme == "https" and secured.tls == TlsFiles(Path("c"), Path("k"))
    assert not secured.front.refuses(elsewhere | {"scheme": "https"})
    assert strict.front.refuses(elsewhere) and not strict.front.serves_others
    assert not allowed.front.refuses(elsewhere) and allowed.front.serves_others


def test_the_variables_of_the_functions_name_a_deployment_too() -> None:
    variables = {
        "GRAVELER_TABLE": "table",
        "GRAVELER_SECRET": "secret",
        "GRAVELER_BUCKETS": "own,landing",
        "GRAVELER_READ_ONLY_BUCKETS": "landing",
        "GRAVELER_CACHE_FOLDER": "/cache",
    }
    found = options("--memory-mib", "2048", **variables)
    named = found.deployment
    assert (named.table, named.secret, named.buckets) == ("table", "secret", ("own", "landing"))
    assert named.read_only_buckets == ("landing",) and named.memory_bytes == 2 << 30
    assert not found.owns_cache and named.cache_folder == "/cache"


def test_the_rate_of_a_user_is_that_of_the_option_or_of_the_variable() -> None:
    where = ("--stack", "lake", "--bucket", "a")
    rate = "--user-requests-per-second"
    of_functions = {"GRAVELER_USER_REQUESTS_PER_SECOND": "7"}
    assert options(*where).deployment.user_requests_per_second == 0
    assert options(*where, **of_functions).deployment.user_requests_per_second == 7
    assert options(*where, rate, "3", **of_functions).deployment.user_requests_per_second == 3
    with pytest.raises(click.BadParameter, match="1<=x"):
        options(*where, rate, "0")


def test_the_process_has_sent_what_its_role_allows(s3: Any, stack: Stack) -> None:
    """A transaction needs the rights of its parts."""
    s3.list_buckets()
    text = (ROOT / "infra" / "gateway.yaml").read_text(encoding="utf-8")
    allowed = {*re.findall(r"dynamodb:(\w+)", text), "TransactWriteItems"}
    sent = set(stack.proxy.operations)
    assert {"GetItem", "GetSecretValue"} <= sent
    assert sent <= {*allowed, "GetSecretValue", "GET", "HEAD", "PUT", "POST", "DELETE"}
