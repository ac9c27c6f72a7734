"""Addresses have one canonical spelling and never leave their bucket."""

import random
import re

import pytest

from graveler.block import address
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.errors import Invalid
from graveler.core.records import ABSENT, AddressType
from tests.support.hostile_names import KEYS_IN_ORDER, escaping_addresses

NAMESPACE = "s3://lake/tables"


def test_splitting_and_joining_are_inverse() -> None:
    for key in KEYS_IN_ORDER:
        joined = address.join(NAMESPACE, key)
        assert address.split(joined) == ("s3", "lake", f"tables/{key}")
        assert address.split(joined).address == joined
    assert address.split("local:///srv/a.csv") == ("local", "", "srv/a.csv")


@pytest.mark.parametrize("scheme", ["s3", "local", "mem"])
def test_b6_escaping_addresses_are_refused(scheme: str) -> None:
    count = 0
    for bad in escaping_addresses(f"{scheme}://lake/tables"):
        if bad.rstrip("/") in (f"{scheme}://lake/tables", "other://bucket/key"):
            continue
        if scheme == "local" and bad.startswith("local:///"):
            continue  # refused by the driver, which knows its import roots
        if re.match(r"(file:///|http://)", bad):
            continue  # well formed, but of no scheme that any driver serves
        with pytest.raises(Invalid):
            address.split(bad)
        count += 1
    assert count > 1_000


def test_b6_relative_addresses_cannot_climb() -> None:
    for bad in ("", "/", "/a", "..", "../a", "a/../../b", "a//b", "./a", "a\\b", "a\0", "a/.."):
        with pytest.raises(Invalid):
            address.join(NAMESPACE, bad)
        with pytest.raises(Invalid):
            address.resolve(NAMESPACE, bad, AddressType.RELATIVE)


@pytest.mark.parametrize(
    ("spelling", "canonical"),
    [
        ("s3a://lake/a", "s3://lake/a"),
        ("S3N://lake//a///b/", "s3://lake/a/b"),
        ("s3://lake", "s3://lake"),
        ("s3://lake//", "s3://lake"),
        ("local:///srv//a/", "local:///srv/a"),
        ("local://name/a", "local://name/a"),
        ("mem://x/%2E%2E/a", "mem://x/%2E%2E/a"),
    ],
)
def test_spellings_normalise(spelling: str, canonical: str) -> None:
    assert address.normalise(spelling) == canonical
    assert address.normalise(canonical) == canonical


def test_normalising_refuses_dots() -> None:
    for bad in ("s3://lake/a/../b", "s3://lake/./b", "lake/a", "", "s3://..", "s3://lake/a\\b"):
        with pytest.raises(Invalid):
            address.normalise(bad)


def test_relative_to_sees_through_spellings() -> None:
    for spelling in (
        "s3://lake/tables/data/x",
        "s3a://lake//tables///data/x",
        "S3://lake/tables/data/x",
    ):
        for namespace in (NAMESPACE, NAMESPACE + "/", "s3n://lake//tables"):
            assert address.relative_to(namespace, spelling) == "data/x"
    for outside in ("s3://lake/tables2/x", "s3://lake/table", NAMESPACE, "s3://other/tables/x"):
        assert address.relative_to(NAMESPACE, outside) is ABSENT


def test_overlaps_is_of_whole_segments_both_ways() -> None:
    for other in (NAMESPACE, "s3a://lake/tables/", "s3://lake", "s3://lake/tables/sub//x"):
        assert address.overlaps(NAMESPACE, other)
        assert address.overlaps(other, NAMESPACE)
    for other in ("s3://lake/tables2", "s3://lake/table", "mem://lake/tables", "s3://lak"):
        assert not address.overlaps(NAMESPACE, other)
        assert not address.overlaps(other, NAMESPACE)


def test_entries_resolve_by_their_type() -> None:
    kinds = AddressType
    assert address.resolve(NAMESPACE, "data/x", kinds.RELATIVE) == f"{NAMESPACE}/data/x"
    assert address.resolve(NAMESPACE, "data/x", kinds.BY_PREFIX) == f"{NAMESPACE}/data/x"
    for full in (kinds.FULL, kinds.BY_PREFIX):
        assert address.resolve(NAMESPACE, "s3a://other/x/", full) == "s3://other/x/"
    # A relative address that looks like a full one stays below its namespace or is refused.
    with pytest.raises(Invalid):
        address.resolve(NAMESPACE, "s3://other/x", kinds.RELATIVE)
    with pytest.raises(Invalid):
        address.resolve(NAMESPACE, "data/x", kinds.FULL)


def test_where_our_own_objects_lie() -> None:
    assert address.range_file(NAMESPACE, "ab") == f"{NAMESPACE}/_lakefs/ab"
    assert address.marker(NAMESPACE) == f"{NAMESPACE}/_lakefs/dummy"
    clock, ids = SystemClock(), SystemIds()
    fresh = {address.new_data_address(clock.now_ns(), ids, b"writer") for _ in range(100)}
    assert len(fresh) == 100
    for relative in fresh:
        assert re.fullmatch(r"data/[0-9a-v]{20}/[0-9a-v]{20}", relative)


def test_the_short_way_to_a_spelling_leads_where_the_long_one_does() -> None:
    seed = random.randrange(1 << 30)
    print(f"{seed=}")
    chance = random.Random(seed)
    starts = ["s3://", "s3a://", "S3n://", "local://", "local:///", "1x://", "", "s3:/", "gs+x://"]
    pieces = ["a", "b.c", ".", "..", "...", ".x", "/", "//", "\\", "\0", "\n", "é", "x" * 700, " "]
    known = 0
    for _ in range(4_000):
        text = chance.choice(starts) + "".join(chance.choices(pieces, k=chance.randrange(8)))
        try:
            expected = address.normalise(address.split(text).address)
        except Invalid:
            with pytest.raises(Invalid):
                address.spelling(text)
            continue
        known += 1
        assert address.spelling(text) == expected, text
    assert known > 100
