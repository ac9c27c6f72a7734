"""S3 clients and clients of the API on one branch, while the service is killed again and again.

Whatever they ask and are told goes into a history, which the judge of many threads reads
(tests/engine/history.py).  A killed service leaves writes unanswered.  Each of them counts until
the moment of the kill, or never; one that is found after the restart has counted.  A completion
without an answer is sent again, as clients do, and then has one.

A copy is conditional on the etag of its source, so its value is known whatever it is told.  The
writers pause for the merger, which changes two keys of a branch of its own and merges it into the
raced one: that is refused while the branch has uncommitted changes.

A conditional write is a `Claim` from one etag to the next, also from nothing.  The claims that came
true at a key must be one chain that ends at what the key holds, and hold every acknowledged one.
"""

import base64
import contextlib
import hashlib
import http.client
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit
from xml.etree import ElementTree

from graveler.auth.credentials import NewCredential
from graveler.core.records import ABSENT, Absent
from tests.cli.service import KEY, SECRET
from tests.engine.history import NOTHING, History, Made, Observed, Span
from tests.engine.load import FEATURE, PAIR, SINK, Refused, timed
from tests.engine.test_threads import HttpDoor
from tests.gateway.serving import S3Client
from tests.waiting import PATIENCE_SECONDS, until

KEYS = tuple(f"k/{number:02}" for number in range(16))
CHAINS = ("cas/0", "cas/1")
LONG = bytes(5 << 20)  # a part that may have a successor
LONG_KEY = "long"  # an object with these bytes, to copy them
REACHED = tuple(
    f"{verb}: done"
    for verb in (
        *("s3 put", "s3 parts", "s3 delete", "s3 batch", "s3 create", "s3 parts create"),
        *("s3 swap", "s3 parts swap", "s3 copy", "s3 parts copy", "api put", "api create"),
        *("commit", "merge into main"),
    )
)
_S3_WRITERS, _API_WRITERS, _COMMITTERS = 4, 2, 2
_NEW_KEYS = 20  # that clients try to create at the same time
_GONE = (OSError, http.client.HTTPException)
_NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"


class Claim(NamedTuple):
    """A conditional write, from the etag that it expects to its own."""

    key: str
    expected: str
    value: str
    is_acknowledged: bool


@dataclass(frozen=True)
class Write:
    """What one request writes: the same value to its keys.  `expected`: if it is conditional, the
    etag that it replaces, or `NOTHING`.  `again`: sends it again.  `borrows`: other writes have the
    value too, so a refusal says nothing about it."""

    verb: str
    keys: tuple[str, ...]
    value: str
    expected: str | Literal[Absent.ABSENT] = ABSENT
    again: Callable[["S3Door"], None] | Literal[Absent.ABSENT] = ABSENT
    borrows: bool = False


class S3Door:
    """One connection of an S3 client."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        host, port = place.hostname or "", place.port or 0
        self._client = S3Client(host, port, NewCredential(KEY, SECRET))
        self._connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_SECONDS)

    def ask(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        payload: str = "",
    ) -> tuple[Mapping[str, str], bytes]:
        """Headers and body of a 2xx; `Refused` for a 4xx; whatever else is wrong."""
        target = "/lake" + target
        sent = self._client.signed(method, target, body=body, headers=headers, payload=payload)
        self._connection.request(method, target, body or None, sent)
        answer = self._connection.getresponse()
        content = answer.read()
        if 400 <= answer.status < 500:
            code = ElementTree.fromstring(content).findtext("Code", "") if content else ""
            raise Refused(f"{answer.status} {code}")
        assert 200 <= answer.status < 300, f"{method} {target}: {answer.status} {content!r}"
        assert b"<Error>" not in content[:200], f"{method} {target}: {content!r}"
        return {name.lower(): value for name, value in answer.getheaders()}, content

    def get(self, key: str) -> tuple[str, bytes]:
        """Etag and body; nothing if there is no object."""
        try:
            headers, body = self.ask("GET", f"/main/{key}")
        except Refused as refusal:
            assert str(refusal) == "404 NoSuchKey", refusal
            return NOTHING, b""
        return headers["etag"].strip('"'), body

    def tree(self) -> dict[str, str]:
        """The etags of all objects of the branch."""
        found: dict[str, str] = {}
        token = ""
        while True:
            more = f"&continuation-token={token}" if token else ""
            _, content = self.ask("GET", f"?list-type=2&prefix=main%2F{more}")
            page = ElementTree.fromstring(content)
            for line in page.iter(f"{_NAMESPACE}Contents"):
                key = line.findtext(f"{_NAMESPACE}Key", "").removeprefix("main/")
                found[key] = line.findtext(f"{_NAMESPACE}ETag", "").strip('"')
            token = page.findtext(f"{_NAMESPACE}NextContinuationToken", "")
            if not token:
                return found

    def close(self) -> None:
        self._connection.close()


def put(door: S3Door, key: str, body: bytes, headers: Mapping[str, str]) -> None:
    """One request, whose answer names the etag of the body."""
    answered, _ = door.ask("PUT", f"/main/{key}", body, headers)
    assert answered["etag"].strip('"') == etag_of(body)


def complete(
    door: S3Door, target: str, order: bytes, headers: Mapping[str, str], value: str
) -> None:
    """Complete an upload, whose answer names this etag."""
    _, content = door.ask("POST", target, order, headers)
    told = ElementTree.fromstring(content).findtext(f"{_NAMESPACE}ETag", "")
    assert told.strip('"') == value, content


def copy(door: S3Door, source: str, key: str, etag: str) -> None:
    """Copy an object that has this etag, as the answer says."""
    headers = {"x-amz-copy-source": f"/lake/main/{source}", "x-amz-copy-source-if-match": etag}
    _, content = door.ask("PUT", f"/main/{key}", headers=headers)
    told = ElementTree.fromstring(content).findtext(f"{_NAMESPACE}ETag", "")
    assert told.strip('"') == etag, content


def put_part(door: S3Door, target: str, part: bytes) -> str:
    """Send a part; the result is its etag."""
    headers, _ = door.ask("PUT", target, part, payload="UNSIGNED-PAYLOAD")
    return headers["etag"]


def copy_part(door: S3Door, target: str, part: bytes) -> str:
    """Copy a part, if it is the long one."""
    if part is not LONG:
        return put_part(door, target, part)
    copied = {"x-amz-copy-source": f"/lake/main/{LONG_KEY}"}
    _, content = door.ask("PUT", target, headers=copied)
    root = ElementTree.fromstring(content)
    return next(child.text or "" for child in root if child.tag.endswith("ETag"))


def batch(door: S3Door, keys: tuple[str, ...]) -> None:
    """Delete keys with one request."""
    lines = "".join(f"<Object><Key>main/{key}</Key></Object>" for key in keys)
    body = f"<Delete>{lines}</Delete>".encode()
    _, content = door.ask("POST", "?delete=", body, {"Content-MD5": _md5_header(body)})
    done = list(ElementTree.fromstring(content).iter(f"{_NAMESPACE}Deleted"))
    assert len(done) == len(keys), content


def _md5_header(body: bytes) -> str:
    return base64.b64encode(hashlib.md5(body).digest()).decode()


def etag_of(*parts: bytes, joined: bool = False) -> str:
    """That of a body, or of an upload in parts."""
    digests = [hashlib.md5(part).digest() for part in parts]
    if not joined:
        return digests[0].hex()
    return f"{hashlib.md5(b''.join(digests)).hexdigest()}-{len(parts)}"


def condition(expected: str) -> dict[str, str]:
    """The header of a claim."""
    return {"If-Match": f'"{expected}"'} if expected else {"If-None-Match": "*"}


@dataclass
class Races:
    """All lives of one store, and what is known of them."""

    seed: int
    history: History = field(default_factory=History)
    claims: list[Claim] = field(default_factory=list)
    lives: int = 0
    resent: int = 0
    created: int = 0  # keys of this life whose creation is acknowledged
    _bodies: dict[str, bytes] = field(default_factory=dict)  # digests, by etag
    _unanswered: list[tuple[float, Write]] = field(default_factory=list)
    _url: str = ""
    _died: float = 0.0
    _ending: threading.Event = field(default_factory=threading.Event)
    _pause: threading.Event = field(default_factory=threading.Event)  # of writers, for the merger

    def begin(self, url: str) -> None:
        """Give every chain its first link.  The service and its repository are new."""
        with contextlib.closing(S3Door(url)) as door:
            write = Write("s3 put", (LONG_KEY,), self._named(LONG))
            self._write(write, partial(put, door, LONG_KEY, LONG, {}))
            for key in CHAINS:
                self._claim(door, "s3 create", key, NOTHING, f"first of {key}".encode())

    def live(self, url: str, kill: Callable[[], None], random_seconds: float) -> None:
        """One life: everybody at once, until the service is killed at any moment."""
        self.lives, self.created, self._url = self.lives + 1, 0, url
        self._ending.clear()
        self._pause.clear()
        before = dict(self.history.answers)
        bodies: list[Callable[[], None]] = [self._api_reader, self._s3_reader, self._merger]
        bodies += [partial(self._s3_writer, number) for number in range(_S3_WRITERS)]
        bodies += [partial(self._api_writer, number) for number in range(_API_WRITERS)]
        bodies += [self._committer] * _COMMITTERS
        threads = [threading.Thread(target=self._guarded, args=(body,)) for body in bodies]
        for thread in threads:
            thread.start()
        until(partial(self._is_under_way, before), "every kind of write is acknowledged")
        threading.Event().wait(random_seconds)
        self._ending.set()
        kill()
        self._died = time.perf_counter()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), "a request hangs"

    def settle(self, url: str) -> None:
        """Look at what the kill has left, and send completions again."""
        with contextlib.closing(S3Door(url)) as door:
            span, tree = timed(door.tree)
            self.history.looked(Observed("after a kill", span, tree))
            for start, write in self._unanswered:
                if write.again is ABSENT:
                    self._over(start, write, tree)
                    continue
                self.resent += 1
                try:
                    write.again(door)
                except Refused as refusal:
                    self._refused(write, f"again: {refusal}")
                else:
                    self._done(write, start)
        self._unanswered.clear()

    def _over(self, start: float, write: Write, tree: Mapping[str, str]) -> None:
        """A write that counted before the kill, or never does."""
        span = Span(start, self._died)
        for key in write.keys:
            is_found = tree.get(key, NOTHING) == write.value
            keep = self.history.wrote if is_found else self.history.might_have_written
            keep(key, write.value, span)
        if write.expected is not ABSENT:
            self.claims.append(Claim(write.keys[0], write.expected, write.value, False))

    def new_key(self, rng: random.Random) -> str:
        """One of the keys that clients create now.

        Each acknowledged creation adds a key, so a slow client never finds all of them taken.
        """
        return f"once/{self.lives}-{self.created + rng.randrange(_NEW_KEYS)}"

    def _is_under_way(self, before: Mapping[str, int]) -> bool:
        now = dict(self.history.answers)
        grown = all(now.get(kind, 0) > before.get(kind, 0) for kind in REACHED)
        return grown or bool(self.history.failures)

    def _guarded(self, body: Callable[[], None]) -> None:
        """Runs until the service is gone."""
        try:
            body()
        except _GONE as error:
            if not self._ending.is_set():
                self.history.fail(f"connection lost: {error!r}")
        except Exception as error:
            self.history.fail(f"{type(error).__name__}: {error}")

    # ---- writes ----------------------------------------------------------------------------------

    def _write(self, write: Write, call: Callable[[], None]) -> None:
        start = time.perf_counter()
        try:
            call()
        except Refused as refusal:
            self._refused(write, str(refusal))
        except _GONE:
            self.history.answered(f"{write.verb}: no answer")
            self._unanswered.append((start, write))
            raise
        else:
            self._done(write, start)

    def _done(self, write: Write, start: float) -> None:
        span = Span(start, time.perf_counter())
        for key in write.keys:
            self.history.wrote(key, write.value, span)
        if write.expected is not ABSENT:
            self.claims.append(Claim(write.keys[0], write.expected, write.value, True))
            with self.history.lock:
                self.created += write.expected == NOTHING
        self.history.answered(f"{write.verb}: done")

    def _refused(self, write: Write, text: str) -> None:
        self.history.answered(f"{write.verb}: {text}", NOTHING if write.borrows else write.value)
        if write.expected is ABSENT and not write.borrows:
            self.history.fail(f"{write.verb} without a condition: {text}")

    def _claim(self, door: S3Door, verb: str, key: str, expected: str, body: bytes) -> None:
        write = Write(verb, (key,), self._named(body), expected)
        self._write(write, partial(put, door, key, body, condition(expected)))

    def _named(self, *parts: bytes, joined: bool = False) -> str:
        value = etag_of(*parts, joined=joined)
        self._bodies[value] = hashlib.md5(b"".join(parts)).digest()
        return value

    def _in_parts(
        self,
        door: S3Door,
        verb: str,
        key: str,
        parts: tuple[bytes, ...],
        expected: str | Literal[Absent.ABSENT] = ABSENT,
        send_part: Callable[[S3Door, str, bytes], str] = put_part,
    ) -> None:
        """An upload in parts.  `expected`: if it is conditional, an etag or `NOTHING`."""
        _, content = door.ask("POST", f"/main/{key}?uploads=")
        id = ElementTree.fromstring(content).findtext(f"{_NAMESPACE}UploadId", "")
        lines = ""
        for number, part in enumerate(parts, start=1):
            tag = send_part(door, f"/main/{key}?partNumber={number}&uploadId={id}", part)
            lines += f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"
        order = f"<CompleteMultipartUpload>{lines}</CompleteMultipartUpload>".encode()
        value = self._named(*parts, joined=True)
        headers = {} if expected is ABSENT else condition(expected)

        def send(by: S3Door) -> None:
            complete(by, f"/main/{key}?uploadId={id}", order, headers, value)

        write = Write(verb, (key,), value, expected, send)
        self._write(write, partial(send, door))

    # ---- clients ---------------------------------------------------------------------------------

    def _s3_writer(self, number: int) -> None:
        rng, count = random.Random(f"{self.seed}/{self.lives}/s3/{number}"), 0
        with contextlib.closing(S3Door(self._url)) as door:
            while self._goes_on():
                count += 1
                self._s3_step(door, rng, f"{self.lives}-{number}-{count}".encode())

    def _s3_step(self, door: S3Door, rng: random.Random, body: bytes) -> None:
        parts = (LONG, body) if rng.random() < 0.05 else (body,)
        if rng.random() < 0.66:
            self._plain_step(door, rng, rng.choice(KEYS), parts)
        else:
            self._conditional_step(door, rng, parts)

    def _plain_step(
        self, door: S3Door, rng: random.Random, key: str, parts: tuple[bytes, ...]
    ) -> None:
        draw, body = rng.random(), parts[-1]
        if draw < 0.08:
            self._copy_step(door, rng.choice(KEYS), key)
        elif draw < 0.12:
            self._in_parts(door, "s3 parts copy", key, (LONG, body), send_part=copy_part)
        elif draw < 0.5:
            write = Write("s3 put", (key,), self._named(body))
            self._write(write, partial(put, door, key, body, {}))
        elif draw < 0.7:
            self._in_parts(door, "s3 parts", key, parts)
        elif draw < 0.82:
            delete = partial(door.ask, "DELETE", f"/main/{key}")
            self._write(Write("s3 delete", (key,), NOTHING), lambda: void(delete()))
        elif draw < 0.9:
            keys = tuple(rng.sample(KEYS, 3))
            self._write(Write("s3 batch", keys, NOTHING), partial(batch, door, keys))
        else:
            self._looked(door, key)

    def _conditional_step(self, door: S3Door, rng: random.Random, parts: tuple[bytes, ...]) -> None:
        draw, body, once, chain = rng.random(), parts[-1], self.new_key(rng), rng.choice(CHAINS)
        if draw < 0.2:
            self._claim(door, "s3 create", once, NOTHING, body)
        elif draw < 0.4:
            self._in_parts(door, "s3 parts create", once, parts, NOTHING)
        elif draw < 0.75:
            self._claim(door, "s3 swap", chain, self._looked(door, chain), body)
        else:
            self._in_parts(door, "s3 parts swap", chain, parts, self._looked(door, chain))

    def _copy_step(self, door: S3Door, source: str, key: str) -> None:
        """Copy what is at one key to another, unless it is gone meanwhile."""
        etag = self._looked(door, source)
        if etag and source != key:
            write = Write("s3 copy", (key,), etag, borrows=True)
            self._write(write, partial(copy, door, source, key, etag))

    def _goes_on(self) -> bool:
        """Whether a writer goes on, after the merger has had its turn."""
        while self._pause.is_set() and not self._ending.is_set():
            self._ending.wait(0.005)
        return not self.history.failures

    def _looked(self, door: S3Door, key: str) -> str:
        """The etag of an object, whose body is the one that has this etag."""
        span, (found, body) = timed(partial(door.get, key))
        self.history.looked(Observed("s3 get", span, {key: found}, (key,)))
        if found and hashlib.md5(body).digest() != self._bodies.get(found):
            self.history.fail(f"{key}: {len(body)} bytes that do not belong to {found}")
        return found

    def _api_writer(self, number: int) -> None:
        rng, count = random.Random(f"{self.seed}/{self.lives}/api/{number}"), 0
        with contextlib.closing(HttpDoor(self._url)) as door:
            while self._goes_on():
                count += 1
                value = f"{self.lives}-api-{number}-{count}"
                key, draw = rng.choice(KEYS), rng.random()
                etag = self._named(value.encode())
                if draw < 0.6:
                    write = Write("api put", (key,), etag)
                    self._write(write, partial(door.put, "main", key, value))
                elif draw < 0.8:
                    write = Write("api delete", (key,), NOTHING)
                    self._write(write, partial(door.delete, key))
                else:
                    once = self.new_key(rng)
                    write = Write("api create", (once,), etag, NOTHING)
                    self._write(write, partial(door.create, once, value))

    def _merger(self) -> None:
        """Changes two keys of a branch of its own, merges it in, and `main` out."""
        with contextlib.closing(HttpDoor(self._url)) as door:
            count = 0
            while not self.history.failures:
                count += 1
                body = f"merge-{self.lives}-{count}"
                for key in PAIR:
                    door.put(FEATURE, key, body)
                door.commit(FEATURE, body)
                self._pause.set()
                write = Write("merge into main", PAIR, self._named(body.encode()), borrows=True)
                while not self._merged(door, write) and not self.history.failures:
                    self._ending.wait(0.005)
                self._pause.clear()
                with contextlib.suppress(Refused):
                    span, made = timed(partial(door.merge, "main", SINK))
                    self.history.made_commit(Made(span, made, SINK))
                self._ending.wait(0.1)

    def _merged(self, door: HttpDoor, write: Write) -> bool:
        """Whether the branch of the merger was merged; it is not while `main` has changes."""
        made: list[str] = []
        start = time.perf_counter()
        self._write(write, lambda: made.append(door.merge(FEATURE, "main")))
        for id in made:
            self.history.made_commit(Made(Span(start, time.perf_counter()), id, "main"))
        return bool(made)

    def _committer(self) -> None:
        with contextlib.closing(HttpDoor(self._url)) as door:
            while not self.history.failures:
                try:
                    span, made = timed(partial(door.commit, "main", "race"))
                except Refused as refusal:
                    self.history.answered(f"commit: {refusal}")
                    if "no changes" not in str(refusal):
                        self.history.fail(f"commit: {refusal}")
                else:
                    self.history.answered("commit: done")
                    self.history.made_commit(Made(span, made, "main"))
                self._ending.wait(0.03)

    def _api_reader(self) -> None:
        with contextlib.closing(HttpDoor(self._url)) as door:
            self._read("list", partial(door.tree, "main"))

    def _s3_reader(self) -> None:
        with contextlib.closing(S3Door(self._url)) as door:
            self._read("s3 list", door.tree)

    def _read(self, what: str, tree: Callable[[], dict[str, str]]) -> None:
        while not self.history.failures:
            span, found = timed(tree)
            self.history.looked(Observed(what, span, found))
            self._ending.wait(0.05)


def void(_: Any) -> None:
    """Drop an answer."""


def broken_claims(claims: list[Claim], history: History, tree: Mapping[str, str]) -> list[str]:
    """Claims from one etag of which two came true, and acknowledged ones that are in no chain."""
    seen = {value for look in history.observed for value in look.content.values()}
    seen |= {claim.expected for claim in claims}
    winners: dict[tuple[str, str], list[str]] = {}
    for claim in claims:
        if claim.is_acknowledged or claim.value in seen:
            winners.setdefault((claim.key, claim.expected), []).append(claim.value)
    wrong = [f"{place} was left by {values}" for place, values in winners.items() if values[1:]]
    before = {values[0]: expected for (_, expected), values in winners.items()}
    chained = set()
    for key in {claim.key for claim in claims}:
        value = tree.get(key, NOTHING)
        while value and value not in chained:
            chained.add(value)
            value = before.get(value, NOTHING)
    lost = [claim for claim in claims if claim.is_acknowledged and claim.value not in chained]
    return wrong + [f"acknowledged, but not in the chain of its key: {claim}" for claim in lost]
