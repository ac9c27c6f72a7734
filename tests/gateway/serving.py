"""A real server with the S3 gateway, and a client that signs with botocore and sends raw bytes."""

import http.client
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from graveler.auth.credentials import NewCredential
from graveler.gateway.route import S3Route
from graveler.gateway.signatures import Authentication
from graveler.http.service import Service, ServiceSettings
from tests.api.serving import ADMINISTRATOR, Reply, Served, served
from tests.waiting import PATIENCE_SECONDS

DOMAIN = "s3.lake.test"


@dataclass(frozen=True)
class S3Client:
    """Sends one request a connection, signed with a key."""

    host: str
    port: int
    key: NewCredential = ADMINISTRATOR

    def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """`path` as text: it is encoded here."""
        target = quote(path, safe="/~")
        return self.raw(method, target, query, body=body, headers=headers)

    def raw(
        self,
        method: str,
        target: str,
        query: Mapping[str, str] | None = None,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """As `send`, with the path as it is sent."""
        if query:
            target += "?" + urlencode(query, quote_via=quote)
        sent = self.signed(method, target, body=body, headers=headers)
        url = f"http://{self.host}:{self.port}{target}"
        return exchange(self.host, self.port, method, url, sent, body)

    def signed(
        self,
        method: str,
        target: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        payload: str = "",
    ) -> dict[str, str]:
        """The headers of a request with its signature.  `target`: path and query as they are
        sent.  `payload`: how the body is signed; by default its hash."""
        url = f"http://{self.host}:{self.port}{target}"
        request = AWSRequest(method, url, headers=dict(headers or {}), data=body)
        credentials = Credentials(self.key.access_key_id, self.key.secret_access_key)
        signer = _Signer(credentials, "s3", "us-east-1")
        signer.stated = payload
        signer.add_auth(request)
        return {name: value for name, value in request.headers.items()}


class _Signer(S3SigV4Auth):
    """Signs with a payload that is stated, if one is."""

    stated = ""

    def payload(self, request: AWSRequest) -> str:
        return self.stated or super().payload(request)


def exchange(
    host: str, port: int, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
) -> Reply:
    """One request as it is, and its answer."""
    target = url.partition("://")[2].partition("/")[2]
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_SECONDS)
    try:
        connection.request(method, "/" + target, body or None, dict(headers))
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Reply(answer.status, found, answer.read())
    finally:
        connection.close()


@dataclass(frozen=True)
class Gateway:
    """A running server with the gateway."""

    live: Served
    s3: S3Client

    def boto(self, *, endpoint: str = "", **config: Any) -> Any:
        """A client of boto3.  `endpoint`: default that of the server."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=endpoint or self.live.client.url,
            aws_access_key_id=self.s3.key.access_key_id,
            aws_secret_access_key=self.s3.key.secret_access_key,
            region_name="us-east-1",
            config=Config(retries={"max_attempts": 0}, s3={"addressing_style": "path"}, **config),
        )


@contextmanager
def gateway(
    store: Path, settings: ServiceSettings | None = None, *, signature_v2: bool = False
) -> Iterator[Gateway]:
    """Serve `store` with the gateway until the block ends."""

    def route(service: Service) -> S3Route:
        authentication = Authentication((DOMAIN,), signature_v2=signature_v2)
        return S3Route(service, (DOMAIN,), authentication)

    with served(store, settings=settings, further=route) as live:
        yield Gateway(live, S3Client(live.client.host, live.client.port))


def code_of(reply: Reply) -> str:
    """The code of an answer that is an error."""
    root = ElementTree.fromstring(reply.body)
    assert root.tag == "Error", reply.body
    return root.findtext("Code", "")
