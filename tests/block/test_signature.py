"""Presigned URLs permit what they say, to whoever was given them, until they expire."""

from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest

from graveler.block.signature import PRESIGNED_PATH, Grant, Signer
from graveler.core.errors import Invalid, Unauthenticated
from graveler.core.records import ABSENT
from tests.support.hostile_names import KEYS_IN_ORDER

KEY = bytes(range(32))
ADDRESS = "local://lake/ns/data/a b/é?&#%"


class FixedClock:
    def __init__(self, now_ns: int) -> None:
        self.now = now_ns

    def now_ns(self) -> int:
        return self.now

    def steady_seconds(self) -> float:
        return self.now / 1e9

    def sleep(self, seconds: float) -> None:
        self.now += int(seconds * 1e9)


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(1_700_000_000_500_000_000)


@pytest.fixture
def signer(clock: FixedClock) -> Signer:
    return Signer(KEY, "http://127.0.0.1:8000/", clock)


def verify(signer: Signer, method: str, url: str, content_type: str = "") -> Grant:
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True))
    return signer.verify(method, parts.path.removeprefix(PRESIGNED_PATH), query, content_type)


def test_what_was_signed_is_granted(signer: Signer) -> None:
    for key in KEYS_IN_ORDER:
        for method in ("GET", "PUT"):
            address = f"local://lake/{key}"
            presigned = signer.presign(address, method, 60, "text/plain; a=é")  # type: ignore[arg-type]
            assert presigned.url.startswith("http://127.0.0.1:8000/_presigned/")
            assert presigned.url.isascii()
            granted = verify(signer, method, presigned.url, "text/plain; a=é")
            assert granted == Grant(address, "text/plain; a=é")


def test_b9_it_expires(signer: Signer, clock: FixedClock) -> None:
    presigned = signer.presign(ADDRESS, "GET", 60, "")
    clock.now = presigned.expires_ns - 1
    assert verify(signer, "GET", presigned.url).address == ADDRESS
    clock.now = presigned.expires_ns
    with pytest.raises(Unauthenticated, match="expired"):
        verify(signer, "GET", presigned.url)


def test_b9_one_size_if_it_is_bound(signer: Signer) -> None:
    for size in (0, 7, 5 << 40):
        bound = signer.presign(ADDRESS, "PUT", 60, "", size).url
        assert verify(signer, "PUT", bound).size == size
        others = (f"size={size + 1}", f"size=0{size}", "size=", "x=")
        for other in others:  # neither another size, nor none
            with pytest.raises(Unauthenticated):
                verify(signer, "PUT", bound.replace(f"size={size}&", f"{other}&"))
    free = signer.presign(ADDRESS, "PUT", 60, "").url
    assert verify(signer, "PUT", free).size is ABSENT
    with pytest.raises(Unauthenticated):
        verify(signer, "PUT", free + "&size=7")


def test_the_key_before_its_rotation_verifies_and_signs_nothing(clock: FixedClock) -> None:
    old, both = Signer(KEY, "", clock), Signer(b"n" * 32, "", clock, KEY)
    assert verify(both, "GET", old.presign(ADDRESS, "GET", 60, "").url).address == ADDRESS
    with pytest.raises(Unauthenticated):
        verify(old, "GET", both.presign(ADDRESS, "GET", 60, "").url)


def test_b9_one_method_one_content_type(signer: Signer) -> None:
    put = signer.presign(ADDRESS, "PUT", 60, "text/plain").url
    for method in ("GET", "HEAD", "DELETE", "put", ""):
        with pytest.raises(Unauthenticated):
            verify(signer, method, put, "text/plain")
    for kind in ("", "text/html", "text/plain "):
        with pytest.raises(Unauthenticated):
            verify(signer, "PUT", put, kind)
    with pytest.raises(Unauthenticated):
        verify(signer, "PUT", signer.presign(ADDRESS, "GET", 60, "").url)
    unbound = signer.presign(ADDRESS, "PUT", 60, "").url
    assert verify(signer, "PUT", unbound, "text/html").content_type == ""


def test_any_change_of_the_url_breaks_it(signer: Signer) -> None:
    url = signer.presign(ADDRESS, "PUT", 60, "text/plain").url
    granted = verify(signer, "PUT", url, "text/plain")
    begin = url.index(PRESIGNED_PATH) + len(PRESIGNED_PATH)
    survivors = 0
    for at in range(begin, len(url)):
        changed = url[:at] + ("A" if url[at] != "A" else "B") + url[at + 1 :]
        try:
            survivors += verify(signer, "PUT", changed, "text/plain") == granted
        except (Unauthenticated, ValueError):
            continue
    # The last character of base64 has spare bits: another spelling of the same address.
    assert survivors <= 1


def test_fields_do_not_run_together(signer: Signer) -> None:
    name = urlsplit(signer.presign(ADDRESS, "GET", 60, "").url).path.removeprefix(PRESIGNED_PATH)
    query = {
        k: v[0]
        for k, v in parse_qs(urlsplit(signer.presign(ADDRESS, "GET", 60, "").url).query).items()
    }
    moved = {**query, "expires": query["expires"][:-1], "content_type": query["expires"][-1]}
    with pytest.raises(Unauthenticated):
        signer.verify("GET", name, moved, "")


def test_nonsense_is_refused(signer: Signer) -> None:
    good = dict(parse_qsl(urlsplit(signer.presign(ADDRESS, "GET", 60, "").url).query))
    for name in ("", "x", "!!!!", "é", "_" * 10_000, "/w"):
        with pytest.raises(Unauthenticated):
            signer.verify("GET", name, good, "")
    name = urlsplit(signer.presign(ADDRESS, "GET", 60, "").url).path.removeprefix(PRESIGNED_PATH)
    for query in (
        {},
        {**good, "signature": "é"},
        {**good, "expires": "x"},
        {**good, "expires": ""},
    ):
        with pytest.raises(Unauthenticated):
            signer.verify("GET", name, query, "")


def test_another_key_signs_otherwise(signer: Signer, clock: FixedClock) -> None:
    other = Signer(b"o" * 32, "", clock)
    with pytest.raises(Unauthenticated):
        verify(signer, "GET", other.presign(ADDRESS, "GET", 60, "").url)
    assert other.presign(ADDRESS, "GET", 60, "").url.startswith("/_presigned/")


def test_keys_and_requests_are_checked(signer: Signer, clock: FixedClock) -> None:
    for key in (b"", b"k" * 31, b"k" * 33):
        with pytest.raises(Invalid):
            Signer(key, "", clock)
    with pytest.raises(Invalid):
        signer.presign(ADDRESS, "DELETE", 60, "")  # type: ignore[arg-type]
    with pytest.raises(Invalid):
        signer.presign(ADDRESS, "PUT", 60, "x" * 10_000)
