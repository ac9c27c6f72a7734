"""Pages of other origins and signed URLs, of the store and of S3."""

from collections.abc import Iterator

import pytest
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from graveler.core.errors import Invalid
from graveler.gateway.route import S3Route
from graveler.gateway.signatures import Authentication
from graveler.http.front import Front, cors_origin
from graveler.http.service import Service, ServiceSettings
from tests.api.serving import ADMINISTRATOR, ANY_NUMBER, Client, Reply, Served, served

PAGE = "https://app.example"
EVIL = "https://evil.example"


def _serve(
    tmp_path_factory: pytest.TempPathFactory, origins: tuple[str, ...]
) -> Iterator[tuple[Served, dict[str, str]]]:
    def route(service: Service) -> S3Route:
        return S3Route(service, (), Authentication(()))

    settings = ServiceSettings(failed_logins=ANY_NUMBER, front=Front(cors_origins=origins))
    store = tmp_path_factory.mktemp("cors") / "store"
    with served(store, settings=settings, further=route) as live:
        repo = live.fresh_repository()
        live.client.upload(repo, "a", b"0123456789")
        where = f"/repositories/{repo}/refs/main/objects"
        location = live.client.send("GET", where, {"path": "a", "presign": "true"}).headers
        request = AWSRequest("GET", f"{live.client.url}/{repo}/main/a")
        key = Credentials(ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key)
        S3SigV4QueryAuth(key, "s3", "us-east-1", expires=600).add_auth(request)
        urls = {"store": location["location"], "s3": request.url}
        yield live, {name: url.removeprefix(live.client.url) for name, url in urls.items()}


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, dict[str, str]]]:
    yield from _serve(tmp_path_factory, ())


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, dict[str, str]]]:
    yield from _serve(tmp_path_factory, (PAGE, "http://localhost:3000"))


def _send(live: Served, method: str, url: str, origin: str, **headers: str) -> Reply:
    anonymous = Client(live.client.host, live.client.port, "")
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return anonymous.raw(method, url, None, {"Origin": origin, **named})


def _preflight(live: Served, url: str, origin: str, method: str = "PUT") -> Reply:
    return _send(
        live,
        "OPTIONS",
        url,
        origin,
        Access_Control_Request_Method=method,
        Access_Control_Request_Headers="content-type,x-amz-meta-a",
    )


def _allows(reply: Reply) -> dict[str, str]:
    return {key: value for key, value in reply.headers.items() if key.startswith("access-control")}


@pytest.mark.parametrize("name", ["store", "s3"])
def test_no_page_uses_signed_urls_by_default(
    closed: tuple[Served, dict[str, str]], name: str
) -> None:
    live, urls = closed
    asked = _preflight(live, urls[name], PAGE)
    assert (asked.status, _allows(asked)) == (403, {})
    read = _send(live, "GET", urls[name], PAGE)
    assert (read.status, _allows(read), "vary" in read.headers) == (200, {}, False)


@pytest.mark.parametrize("name", ["store", "s3"])
def test_a_page_whose_origin_is_named_uses_signed_urls(
    shared: tuple[Served, dict[str, str]], name: str
) -> None:
    live, urls = shared
    for origin in (PAGE, "http://localhost:3000"):
        asked = _preflight(live, urls[name], origin)
        assert asked.status == 204 and asked.body == b""
        allowed = _allows(asked)
        assert allowed["access-control-allow-origin"] == origin
        assert "PUT" in allowed["access-control-allow-methods"]
        assert allowed["access-control-allow-headers"] == "content-type,x-amz-meta-a"
        assert "access-control-allow-credentials" not in allowed
        for method, headers, status in (
            ("GET", {}, 200),
            ("GET", {"Range": "bytes=1-2"}, 206),
            ("GET", {"Range": "bytes=99-"}, 416),
            ("GET", {"If-Match": '"x"'}, 412),
        ):
            reply = _send(live, method, urls[name], origin, **headers)
            assert reply.status == status
            assert reply.headers["access-control-allow-origin"] == origin
            assert reply.headers["access-control-expose-headers"] == "*"
            assert reply.headers["vary"] == "Origin"
    refused = _send(live, "GET", urls[name][:-6], PAGE)
    assert refused.status in (401, 403)
    assert refused.headers["access-control-allow-origin"] == PAGE


@pytest.mark.parametrize("name", ["store", "s3"])
@pytest.mark.parametrize("origin", [EVIL, "null", "http://app.example", PAGE + ".evil.example"])
def test_other_pages_do_not(shared: tuple[Served, dict[str, str]], name: str, origin: str) -> None:
    live, urls = shared
    asked = _preflight(live, urls[name], origin)
    assert (asked.status, _allows(asked)) == (403, {})
    read = _send(live, "GET", urls[name], origin)
    assert (read.status, _allows(read), read.headers["vary"]) == (200, {}, "Origin")


def test_the_api_is_shared_with_no_page(shared: tuple[Served, dict[str, str]]) -> None:
    live, _ = shared
    for path in ("/api/v1/repositories", "/", "/_health", "/openapi.json"):
        assert not _allows(_preflight(live, path, PAGE, "GET"))
        assert not _allows(_send(live, "GET", path, PAGE))


def test_an_origin_is_a_scheme_and_a_host() -> None:
    assert cors_origin("*") == "*"
    assert cors_origin("HTTPS://App.example:443/") == PAGE
    for wrong in ("app.example", "https://app.example/page", "null", ""):
        with pytest.raises(Invalid, match="origin invalid"):
            cors_origin(wrong)
