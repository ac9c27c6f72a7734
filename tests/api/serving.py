"""A real server for tests: an embedded store, uvicorn in a thread, real sockets; a small client."""

import base64
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import IO, Any, Literal
from urllib.parse import quote, urlencode

from graveler.api.local import open_service
from graveler.api.local import served as application_of
from graveler.api.operation import Operation
from graveler.api.operations import OPERATIONS
from graveler.assembly.embedded import Embedded, open_embedded
from graveler.audit.trail import AUDIT_FOLDER, FileTrail, Trail
from graveler.auth import accounts
from graveler.auth.authenticator import NO_IDENTITIES, Identities
from graveler.auth.credentials import NewCredential
from graveler.auth.throttling import Rates
from graveler.cli.support.host import bind
from graveler.cli.support.serve_options import Listen
from graveler.core.records import ABSENT, Absent
from graveler.core.settings import TlsFiles
from graveler.engine.hooks import NO_HOOKS, Hooks
from graveler.http.connections import ConnectionLimits
from graveler.http.dispatch import Application, Route
from graveler.http.front import DIRECT, Front
from graveler.http.server import BOUNDS, Certificate, Server, make_server
from graveler.http.service import Service, ServiceSettings
from tests.waiting import PATIENCE_SECONDS, until

ADMINISTRATOR = NewCredential("AKIAIOSFDNN7EXAMPLEQ", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
USER = "administrator"
ANY_NUMBER = Rates(10**9, 10**9, 10**9)  # of failed logins: tests of this are elsewhere
API = "/api/v1"


@dataclass(frozen=True)
class Reply:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        text: str = self.json["message"]
        return text


def basic(key: str, secret: str) -> str:
    """The value of an Authorization header."""
    return "Basic " + base64.b64encode(f"{key}:{secret}".encode()).decode()


@dataclass(frozen=True)
class Client:
    """Sends one request a connection; as the administrator unless a header says otherwise."""

    host: str
    port: int
    authorization: str = basic(ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key)
    tls: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"

    def connected(self) -> socket.socket:
        """A new connection."""
        raw = socket.create_connection((self.host, self.port), timeout=PATIENCE_SECONDS)
        return self.tls.wrap_socket(raw, server_hostname=self.host) if self.tls else raw

    def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        *,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """`body`: bytes go as they are, anything else as JSON; `path` below the API."""
        target = quote(API + path, safe="/~^@$")
        return self.raw(method, target + ("?" + urlencode(query) if query else ""), body, headers)

    def raw(
        self, method: str, target: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """As `send`, with the target as it is."""
        given = {"Authorization": self.authorization} if self.authorization else {}
        given |= headers or {}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            given.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_SECONDS)
        connection.sock = self.connected()
        try:
            connection.request(method, target, body, given)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, found, answer.read())
        finally:
            connection.close()

    def upload(self, repo: str, path: str, body: bytes, branch: str = "main") -> Reply:
        """Stage an object."""
        where = f"/repositories/{repo}/branches/{branch}/objects"
        return self.send("POST", where, {"path": path}, body=body)


@dataclass(frozen=True)
class Served:
    """A running server."""

    client: Client
    service: Service
    embedded: Embedded
    server: Server
    store: Path
    names: Iterator[int] = field(default_factory=lambda: iter(range(1_000_000)))

    def fresh_repository(self) -> str:
        """A repository of its own for a test."""
        name = f"repo-{next(self.names)}"
        body = {"name": name, "storage_namespace": f"local://{name}/x"}
        reply = self.client.send("POST", "/repositories", body=body)
        assert reply.status == 201, reply.body
        return name


def next_answer(stream: IO[bytes]) -> tuple[int, bytes]:
    """The next answer: its status, and as much of its body as comes."""
    status = int(stream.readline().split()[1])
    length = 0
    while (line := stream.readline()) != b"\r\n":
        name, _, value = line.partition(b":")
        length = int(value) if name == b"content-length" else length
    return status, stream.read(length)


def ended(client: Client, where: str, said: str = "done", **query: str) -> Any:
    """What a task says of itself once it has come to its end."""
    seen: list[Any] = []

    def over() -> bool:
        seen.append(client.send("GET", where, query).json)
        return bool(seen[-1].get(said)) or "error" in seen[-1]

    until(over, f"{where} has ended")
    return seen[-1]


@contextmanager
def served(
    store: Path,
    *,
    settings: ServiceSettings | None = None,
    import_roots: Sequence[Path] = (),
    administrator: bool = True,
    commit_rows_max: float = inf,
    public: bool = False,
    bounds: ConnectionLimits = BOUNDS,
    hooks: Hooks = NO_HOOKS,
    identities: Identities = NO_IDENTITIES,
    trail: Trail | Literal[Absent.ABSENT] = ABSENT,
    further: Callable[[Service], Route] | Literal[Absent.ABSENT] = ABSENT,
    operations: Sequence[Operation] = OPERATIONS,
    tls: TlsFiles | Literal[Absent.ABSENT] = ABSENT,
) -> Iterator[Served]:
    """Serve `store` on a free port until the block ends; then stop gracefully.  `public`: the
    service knows its public URL.  `trail`: instead of files in the store.  `further`: makes a route
    beside the API.  `operations`: those of the API.  `tls`: clients must use it."""
    taken = bind(Listen("127.0.0.1", 0))
    settings, base_url = settings or ServiceSettings(failed_logins=ANY_NUMBER), ""
    if public:
        base_url = f"{'http' if tls is ABSENT else 'https'}://127.0.0.1:{taken.getsockname()[1]}"
        settings = settings._replace(presigns=True, front=Front(base_url))
    embedded = open_embedded(
        store, import_roots=import_roots, base_url=base_url, commit_rows_max=commit_rows_max
    )
    files: FileTrail | Literal[Absent.ABSENT] = ABSENT
    try:
        ports = replace(embedded.ports, hooks=hooks)
        files = FileTrail(store / AUDIT_FOLDER, ports.clock) if trail is ABSENT else ABSENT
        service = open_service(
            ports,
            embedded.signer,
            embedded.secret,
            settings,
            identities=identities,
            trail=files if trail is ABSENT else trail,
        )
        keeper = accounts.keeper(ports.kv, ports.clock, ports.ids, embedded.secret)
        if administrator and accounts.find(ports.kv) is ABSENT:
            accounts.create(keeper, USER, "", ADMINISTRATOR)
        route = ABSENT if further is ABSENT else further(service)
        with listening(service, taken, bounds, route, operations, tls) as (client, server):
            yield Served(client, service, embedded, server, store)
    finally:
        if files is not ABSENT:
            files.close()
        embedded.close()
        taken.close()


@contextmanager
def listening(
    service: Service,
    taken: socket.socket | None = None,
    bounds: ConnectionLimits = BOUNDS,
    further: Route | Literal[Absent.ABSENT] = ABSENT,
    operations: Sequence[Operation] = OPERATIONS,
    tls: TlsFiles | Literal[Absent.ABSENT] = ABSENT,
) -> Iterator[tuple[Client, Server]]:
    """Serve `service` on a socket, or on a free port, until the block ends; then stop
    gracefully."""
    application = application_of(service, further, operations)
    with running(application, taken, bounds, service.settings.front, tls) as served:
        yield served


@contextmanager
def running(
    application: Application,
    taken: socket.socket | None = None,
    bounds: ConnectionLimits = BOUNDS,
    front: Front = DIRECT,
    tls: TlsFiles | Literal[Absent.ABSENT] = ABSENT,
) -> Iterator[tuple[Client, Server]]:
    """Serve an application as `listening` does."""
    ready = threading.Event()
    bound: list[int] = []

    def on_ready(port: int) -> None:
        bound.append(port)
        ready.set()

    server = make_server(
        *(application, "127.0.0.1", 0, on_ready),
        bounds=bounds,
        front=front,
        certificate=ABSENT if tls is ABSENT else Certificate(tls),
    )
    trust = None if tls is ABSENT else ssl.create_default_context(cafile=tls.certificate)
    sockets = [taken] if taken else None
    thread = threading.Thread(target=server.run, args=(sockets,), name="server")
    thread.start()
    try:
        assert ready.wait(PATIENCE_SECONDS), "the server did not start"
        yield Client("127.0.0.1", bound[0], tls=trust), server
    finally:
        server.should_exit = True
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), "the server did not stop"
