"""Names and times as answers write them."""

from datetime import UTC, datetime
from urllib.parse import quote_plus

from hypothesis import given
from hypothesis import strategies as st

from graveler.gateway.request import url_encoded
from graveler.gateway.xml import timestamp

SECONDS_MAX = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp())


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_name_is_encoded_as_by_the_library_but_for_slash_and_star(name: str) -> None:
    assert url_encoded(name) == quote_plus(name, safe="/*")


@given(st.integers(0, SECONDS_MAX), st.integers(0, 999_999_999))
def test_a_time_is_cut_to_its_second(seconds: int, rest: int) -> None:
    moment = datetime.fromtimestamp(seconds, UTC)
    expected = moment.isoformat().removesuffix("+00:00") + ".000Z"
    assert timestamp(seconds * 1_000_000_000 + rest) == expected
