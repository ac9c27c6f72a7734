"""The sample data: the airports of the `airportsdata` package, one CSV file for each country.

For the story and demo.py.
"""

import csv
import io
from collections.abc import Mapping
from typing import NamedTuple

REPOSITORY = "airports"
SAMPLES = "local://samples/"  # where its namespace lies, whenever it was made
COLUMNS = ("icao", "iata", "name", "city", "subd", "elevation", "lat", "lon", "tz")


class Sample(NamedTuple):
    """Rows by country, and the version of the package."""

    countries: Mapping[str, list[Mapping[str, object]]]
    version: str

    @property
    def rows(self) -> int:
        """Airports of all countries."""
        return sum(map(len, self.countries.values()))


def load() -> Sample:
    """The airports, by country and code."""
    import airportsdata

    countries: dict[str, list[Mapping[str, object]]] = {}
    for _, airport in sorted(airportsdata.load("ICAO").items()):
        countries.setdefault(airport["country"], []).append(airport)
    return Sample(dict(sorted(countries.items())), airportsdata.__version__)


def path_of(country: str) -> str:
    """Where a country's file lies in the repository."""
    return f"airports/{country}.csv"


def file_of(rows: list[Mapping[str, object]]) -> bytes:
    """A country's file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def spoiled(rows: list[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """What a job with a bug makes of them: latitude and longitude exchanged."""
    return [{**row, "lat": row["lon"], "lon": row["lat"]} for row in rows]
