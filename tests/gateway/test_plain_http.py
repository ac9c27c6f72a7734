"""What other machines ask by plain HTTP is refused, also of repositories named as health checks."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from graveler.api.local import served as application_of
from graveler.api.pages import HEALTH_PATH, HEALTH_PATHS, READY_PATH
from graveler.gateway.route import OBSERVED_PATHS, gateway_app, s3_route
from graveler.http.dispatch import Application
from graveler.http.front import Front
from graveler.http.service import Service
from tests.api.serving import served
from tests.gateway.serving import DOMAIN, S3Client

HOST = "lake.test"
DELETE = b"<Delete><Object><Key>main/a</Key></Object></Delete>"


def _beside_the_api(service: Service) -> Application:
    return application_of(service, s3_route(service, (DOMAIN,), signature_v2=False))


def _alone(service: Service) -> Application:
    return gateway_app(service, s3_route(service, (DOMAIN,), signature_v2=False), "local://x")


def _asked(
    application: Application,
    method: str,
    url: str,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> httpx.Response:
    """The answer to another machine."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(application, client=("10.0.0.9", 1))
        async with httpx.AsyncClient(transport=transport) as client:
            return await client.request(method, url, headers=dict(headers or {}), content=body)

    return asyncio.run(ask())


@pytest.mark.parametrize("made", [_beside_the_api, _alone])
def test_an_s3_request_with_the_path_of_a_health_check_is_refused(
    tmp_path: Path, made: Callable[[Service], Application]
) -> None:
    with served(tmp_path / "store") as live:
        repository = {"name": "healthcheck", "storage_namespace": "local://healthcheck"}
        assert live.client.send("POST", "/repositories", body=repository).status == 201
        assert live.client.upload("healthcheck", "a", b"1").status == 201
        open_to_all = made(live.service)
        front = Front(tls_only=True)
        settings = live.service.settings._replace(front=front)
        guarded = made(replace(live.service, settings=settings))

        for method, host, target, body in (
            ("POST", HOST, "/healthcheck?delete", DELETE),
            ("GET", HOST, "/healthcheck?list-type=2", b""),
            ("GET", f"healthcheck.{DOMAIN}", "/_health", b""),
            ("PUT", f"healthcheck.{DOMAIN}", "/_health/ready", b"1"),
        ):
            signed = S3Client(host, 80).signed(method, target, body=body)
            sent = (method, f"http://{host}{target}", signed, body)
            refused = _asked(guarded, *sent)
            assert refused.status_code == 403 and "use TLS" in refused.text, target
            assert "x-amz-request-id" not in refused.headers, target  # of the gateway
            assert "x-amz-request-id" in _asked(open_to_all, *sent).headers, target


@pytest.mark.parametrize(
    ("made", "paths"), [(_beside_the_api, HEALTH_PATHS), (_alone, (HEALTH_PATH, READY_PATH))]
)
def test_health_checks_are_read_by_everybody(
    tmp_path: Path, made: Callable[[Service], Application], paths: tuple[str, ...]
) -> None:
    with served(tmp_path / "store") as live:
        settings = live.service.settings._replace(front=Front(tls_only=True))
        application = made(replace(live.service, settings=settings))
        for path in paths:
            for method in ("GET", "HEAD"):
                assert _asked(application, method, f"http://{HOST}{path}").status_code == 200
            for method in ("POST", "PUT", "DELETE"):
                assert _asked(application, method, f"http://{HOST}{path}").status_code == 403
        for path in {*OBSERVED_PATHS, "/healthcheck", "/"} - {*paths}:
            refused = _asked(application, "GET", f"http://{HOST}{path}")
            assert refused.status_code == 403 and "use TLS" in refused.text, path
