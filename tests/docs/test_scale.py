"""A slice of docs/measured/scale.md: one branch, more load than DynamoDB bears, virtual time."""

import pytest

from benchmarks import scale
from benchmarks.scale_runs import events, growth, readers, writers

WRITERS = 60  # they ask for 7,000 rows a second


@pytest.fixture(scope="module")
def rates() -> dict[int, float]:
    """Rows a second by the number of shards."""
    found = {}
    for shards in (1, 8):
        outcome = writers(shards, WRITERS, 2.0, (1, 2.0))
        assert outcome.lost == 0
        assert outcome.per_second > 0
        found[shards] = outcome.per_second
    return found


def test_shards_carry_what_one_partition_does_not(rates: dict[int, float]) -> None:
    assert rates[1] < 2_000  # a fresh token's partition brings a second's units of its own
    assert rates[8] > 1.5 * rates[1]


def test_no_number_of_shards_goes_beyond_the_record_of_the_branch(rates: dict[int, float]) -> None:
    assert 2_500 < rates[8] < 3_100


def test_a_branch_grows_until_its_record_is_the_limit() -> None:
    found, lost = growth(60, 4, 1.0, rows=500)
    assert lost == 0
    shards = [line.shards for line in found]
    assert shards[:2] == [1, 1] and shards[2] > 1
    assert found[2].per_second > 1.5 * found[1].per_second


def test_reads_hold_at_the_limit_of_the_record() -> None:
    outcome = readers(100, 1.0)
    assert 2_700 < outcome.per_second < 3_300
    assert outcome.throttled > 0


def test_committers_that_never_rest_lose_nothing_and_do_not_starve_writers() -> None:
    outcome = writers(4, 10, 0.5, (4, 0.0))
    assert outcome.lost == 0
    assert outcome.failed == 0
    assert outcome.commits > 10
    assert outcome.per_second > 100


def test_events_grow_with_the_shards() -> None:
    few, many = events(1, 2, 0.5), events(16, 4, 0.5)
    assert few.lost == many.lost == 0
    assert few.per_second < 1_100
    assert many.per_second > 1.5 * few.per_second


def test_a_range_has_as_many_records_as_the_rule_says() -> None:
    found = scale.sizes(objects=10_000_000, sample=20_000)
    assert 9_900 < found.records_per_range < 10_000
    assert found.ranges == round(10_000_000 / found.records_per_range)
    assert 20 < found.metarange_bytes / found.ranges < 200
