"""A TLS stand-in for DynamoDB, S3 and Secrets Manager that answers at once and counts requests.

It holds one small repository, which the engine itself creates.  It implements only the calls of a
cold read of one object: GetItem, BatchGetItem, ranged GETs, GetSecretValue.  Used by cold.py.
"""

import base64
import json
import re
import ssl
import subprocess
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from graveler.assembly.aws import parse_secret
from graveler.assembly.drivers import Drivers, ports_of
from graveler.auth import accounts
from graveler.block.memory import MemoryBlocks
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.records import ABSENT
from graveler.engine.commits.commit import CommitRequest, commit
from graveler.engine.objects import write
from graveler.engine.ports import Ports, Sequential, open_repository
from graveler.engine.repositories import repository
from graveler.kv.dynamodb_items import Item, item_of
from graveler.kv.memory import MemoryStore

BUCKET = "lake-data"
OBJECTS = 2_000
ASKED = "table/part-01000"
SECRET = "Ab1" * 40
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_SUBJECT = "/CN=127.0.0.1"


class World:
    """One repository with one commit, in memory.  `ref` is the id of the commit."""

    def __init__(self, scratch: Path) -> None:
        self.kv = MemoryStore()
        clock, ids, secret = SystemClock(), SystemIds(), parse_secret(SECRET)
        self.blocks = MemoryBlocks(clock, scheme="s3")
        ranges = SstRangeStore(StoredFiles(self.blocks))
        drivers = Drivers(self.kv, self.blocks, ranges, clock, ids, Sequential())
        ports = ports_of(drivers, secret.key)
        keeper = accounts.keeper(self.kv, clock, ids, secret.key)
        accounts.create(keeper, accounts.USER_DEFAULT, "", secret.first)
        self.ref = _filled(ports)
        self.credential = secret.first


def _filled(ports: Ports) -> str:
    new = repository.NewRepository("lake", f"s3://{BUCKET}/lake")
    repo = repository.create(ports, new)
    upload = write.Upload((b"x" * 100,))
    for number in range(OBJECTS):
        write.upload(open_repository(ports, repo), "main", f"table/part-{number:05}", upload)
    return commit(open_repository(ports, repo), "main", CommitRequest("filled", "bench")).id


class Service:
    """Serves a `World` on its own port until it is closed."""

    def __init__(self, world: World, folder: Path) -> None:
        self.certificate = folder / "certificate.pem"
        key = folder / "key.pem"
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        command += ["-subj", _SUBJECT, "-addext", "subjectAltName=IP:127.0.0.1"]
        command += ["-keyout", str(key), "-out", str(self.certificate)]
        subprocess.run(command, check=True, capture_output=True)
        self.counts: Counter[str] = Counter()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(world, self.counts))
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(world: World, counts: Counter[str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            target = self.headers["X-Amz-Target"].rpartition(".")[2]
            body = self.rfile.read(int(self.headers["Content-Length"]))
            counts[target] += 1
            if target == "GetSecretValue":
                self._json({"SecretString": SECRET, "Name": "lake", "ARN": "arn"})
                return
            asked = json.loads(body)
            if target == "BatchGetItem":
                self._json(_items(world, asked["RequestItems"]))
                return
            assert target == "GetItem", target
            self._json(_item(world, asked["Key"]))

        def do_GET(self) -> None:
            counts["ranged GET" if "Range" in self.headers else "GET"] += 1
            address = "s3:/" + unquote(urlsplit(self.path).path)
            size = world.blocks.head(address).size
            found = _RANGE.fullmatch(self.headers.get("Range", "bytes=0-"))
            assert found
            first, last = found[1], found[2]
            start = int(first) if first else max(size - int(last), 0)
            end = min(int(last) + 1, size) if first and last else size
            content = world.blocks.read(address, start, end - start)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
            self.send_header("ETag", '"x"')
            self._end(content)

        def _json(self, value: object) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/x-amz-json-1.0")
            self._end(json.dumps(value).encode())

        def _end(self, content: bytes) -> None:
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Handler


def _item(world: World, key: dict[str, dict[str, str]]) -> dict[str, object]:
    place = (base64.b64decode(key["p"]["B"]), base64.b64decode(key["s"]["B"]))
    row = world.kv.get(*place)
    return {} if row is ABSENT else {"Item": _encoded(item_of(place, row, 0))}


def _items(world: World, asked: dict[str, Any]) -> dict[str, object]:
    """The answer of a batch: the items of one table."""
    ((table, wanted),) = asked.items()
    found = [_item(world, key).get("Item") for key in wanted["Keys"]]
    return {"Responses": {table: [item for item in found if item]}, "UnprocessedKeys": {}}


def _encoded(item: Item) -> dict[str, dict[str, str]]:
    return {
        name: {
            kind: base64.b64encode(value).decode() if isinstance(value, bytes) else value
            for kind, value in typed.items()
        }
        for name, typed in item.items()
    }
