"""The sample data of the demo: the airports of the package `airportsdata`, one CSV per country.

For story.py and demo.py.
"""

import csv
import io
from collections.abc import Mapping
from typing import NamedTuple

REPOSITORY = "airports"
SAMPLES = "local://samples/"  # the sample repository's storage namespace is always below this
COLUMNS = ("icao", "iata", "name", "city", "subd", "elevation", "lat", "lon", "tz")


class Sample(NamedTuple):
    """Rows by country, and the version of the package."""

    countries: Mapping[str, list[Mapping[str, object]]]
    version: str

    @property
    def rows(self) -> int:
        """The number of airports in all countries."""
        return sum(map(len, self.countries.values()))


def load() -> Sample:
    """The airports, sorted by country and ICAO code."""
    import airportsdata

    countries: dict[str, list[Mapping[str, object]]] = {}
    for _, airport in sorted(airportsdata.load("ICAO").items()):
        countries.setdefault(airport["country"], []).append(airport)
    return Sample(dict(sorted(countries.items())), airportsdata.__version__)


def path_of(country: str) -> str:
    """The path of a country's file in the repository."""
    return f"airports/{country}.csv"


def file_of(rows: list[Mapping[str, object]]) -> bytes:
    """The content of a country's file: CSV with a header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def spoiled(rows: list[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """The rows with latitude and longitude exchanged, as if by a job with a bug."""
    return [{**row, "lat": row["lon"], "lon": row["lat"]} for row in rows]
