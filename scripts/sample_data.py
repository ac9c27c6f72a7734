"""Builds graveler/api/sample.zip: the files of a new repository that is created with `sample_data`.

    .venv-spark4/bin/python scripts/sample_data.py

The lakes are invented.  All values come from one seed, so every run makes the same rows.  The table
is stored without compression, so that partial reads can seek in it; the archive compresses it.  The
script needs pyarrow, which the product does not need.
"""

import argparse
import csv
import io
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

TARGET = Path(__file__).resolve().parents[1] / "graveler" / "api" / "sample.zip"
ROWS = 6_000
IMAGES = 28
_SEED = "graveler sample lakes"
_GROUP_ROWS = 2_000
_PIXELS = 96
_MOMENT = (1980, 1, 1, 0, 0, 0)

_STARTS = ("Al", "Ber", "Cor", "Dun", "El", "Fin", "Gar", "Hol", "Is", "Kal", "Lor", "Mar", "Nev")
_MIDDLES = ("a", "e", "i", "o", "an", "en", "ir", "on", "ul", "ai")
_ENDS = ("dal", "mere", "nok", "ra", "sted", "tan", "via", "wen", "ya", "zor")
_COUNTRIES = {
    "Aldria": ("Northern Lowlands", 52.0, 12.0),
    "Bevania": ("Northern Lowlands", 58.5, 24.0),
    "Corvina": ("Eastern Highlands", 31.25, 78.5),
    "Dravonia": ("Eastern Highlands", 44.0, 92.75),
    "Esterra": ("Southern Coast", -33.5, 18.25),
    "Falmora": ("Southern Coast", -41.75, 146.0),
    "Gorland": ("Western Plateau", 39.0, -105.5),
    "Hestia": ("Western Plateau", 61.25, -121.0),
}
_KINDS = ("glacial", "volcanic", "tectonic", "oxbow", "reservoir", "crater")
_SEA = (226, 232, 240)
_SHORE = (148, 187, 214)
_WATER = (59, 122, 173)
_DEEP = (24, 68, 112)


def lakes() -> list[dict[str, Any]]:
    """The rows of all lakes, ordered by id."""
    chance = Random(_SEED)
    return [_lake(number, chance) for number in range(1, ROWS + 1)]


def _lake(number: int, chance: Random) -> dict[str, Any]:
    country = chance.choice(sorted(_COUNTRIES))
    region, latitude, longitude = _COUNTRIES[country]
    kind = chance.choice(_KINDS)
    depth = 2 + int(150 * chance.random() ** 4)
    area = 1 + int(200 * chance.random() ** 6)
    name = "Lake " + chance.choice(_STARTS) + chance.choice(_MIDDLES) + chance.choice(_ENDS)
    return {
        "lake_id": f"lake-{number:06}",
        "name": name,
        "country": country,
        "region": region,
        "kind": kind,
        "latitude": latitude + chance.randrange(-32, 33) / 8,
        "longitude": longitude + chance.randrange(-32, 33) / 8,
        "elevation_m": 25 * chance.randrange(80),
        "area_km2": float(area),
        "depth_m": depth,
        "is_protected": chance.random() < 0.25,
        "description": (
            f"{name} is a {kind} lake of {country}, in the region {region}. "
            f"It covers {area} square kilometres and is at most {depth} metres deep."
        ),
    }


def table() -> pa.Table:
    """The rows as a table for lakes.parquet."""
    schema = pa.schema(
        [
            ("lake_id", pa.string()),
            ("name", pa.string()),
            ("country", pa.string()),
            ("region", pa.string()),
            ("kind", pa.string()),
            ("latitude", pa.float64()),
            ("longitude", pa.float64()),
            ("elevation_m", pa.int32()),
            ("area_km2", pa.float64()),
            ("depth_m", pa.int32()),
            ("is_protected", pa.bool_()),
            ("description", pa.string()),
        ]
    )
    return pa.Table.from_pylist(lakes(), schema)


def _parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(
        table(), out, row_group_size=_GROUP_ROWS, compression="NONE", use_dictionary=False
    )
    return out.getvalue()


def _map(row: dict[str, Any]) -> bytes:
    """A PNG of a lake: its outline, darker where it is deep."""
    chance = Random(f"{_SEED}/{row['lake_id']}")
    waves = [(at, chance.uniform(0.02, 0.16), chance.uniform(0, math.tau)) for at in (2, 3, 5)]
    palette = (_SEA, _SHORE, _WATER, _DEEP)
    lines = []
    for y in range(_PIXELS):
        line = bytearray()
        for x in range(_PIXELS):
            across, down = 2 * x / _PIXELS - 1, 2 * y / _PIXELS - 1
            angle = math.atan2(down, across)
            shore = 0.62 + sum(size * math.sin(at * angle + turn) for at, size, turn in waves)
            share = math.hypot(across, down) / shore
            line.append(0 if share > 1.05 else 1 if share > 1 else 2 if share > 0.55 else 3)
        lines.append(b"\0" + bytes(line))
    head = struct.pack(">IIBBBBB", _PIXELS, _PIXELS, 8, 3, 0, 0, 0)
    colours = b"".join(bytes(colour) for colour in palette)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(kind, body)
        for kind, body in (
            (b"IHDR", head),
            (b"PLTE", colours),
            (b"IDAT", zlib.compress(b"".join(lines), 9)),
            (b"IEND", b""),
        )
    )


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _index(rows: list[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("file", "lake_id", "name", "width", "height"))
    for row in rows:
        writer.writerow((f"{row['lake_id']}.png", row["lake_id"], row["name"], _PIXELS, _PIXELS))
    return text.getvalue().encode()


_README = f"""# A sample lake

This repository was created with sample data: {ROWS:,} lakes that do not exist.

| path | what |
|---|---|
| `lakes.parquet` | a table of the lakes: one row for each, {ROWS // _GROUP_ROWS} row groups |
| `images/` | maps of {IMAGES} of them, as PNG; `images/index.csv` says which is which |
| `data/lakes.source.md` | the columns of the table, and where it comes from |

Try on a branch of your own, and look at what changed before you commit it; put the name of this
repository for REPOSITORY:

    import graveler

    main = graveler.connect().repository("REPOSITORY").branch("main")
    mine = main.create_branch("mine")
    mine.write_text("notes.txt", "hello, lake")
    print(mine.status())
    mine.commit("Add a note")
    print(main.diff(mine))
"""

_SOURCE = f"""# lakes.parquet

Invented data: names, places and sizes are drawn at random by a program, from one seed. It may be
used for anything.

| column | type | what |
|---|---|---|
| `lake_id` | string | `lake-000001` to `lake-{ROWS:06}`, in order |
| `name` | string | not unique |
| `country`, `region` | string | {len(_COUNTRIES)} countries in 4 regions |
| `kind` | string | {", ".join(_KINDS)} |
| `latitude`, `longitude` | double | degrees |
| `elevation_m` | int32 | metres above the sea |
| `area_km2` | double | square kilometres |
| `depth_m` | int32 | metres, at the deepest place |
| `is_protected` | boolean | |
| `description` | string | two sentences |
"""


def files() -> Iterator[tuple[str, bytes]]:
    """Path and content of every file, in the order of the paths."""
    drawn = lakes()[:IMAGES]
    yield "README.md", _README.encode()
    yield "data/lakes.source.md", _SOURCE.encode()
    yield "images/index.csv", _index(drawn)
    for row in drawn:
        yield f"images/{row['lake_id']}.png", _map(row)
    yield "lakes.parquet", _parquet()


def main() -> None:
    """Write the archive.  The same content gives the same bytes."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    with zipfile.ZipFile(TARGET, "w") as archive:
        for name, content in files():
            info = zipfile.ZipInfo(name, _MOMENT)
            info.external_attr = 0o644 << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED, 9)


if __name__ == "__main__":
    main()
