"""The sample data is what its program makes; needs a reader of Parquet."""

import io

import pyarrow.parquet as pq

from graveler.api import repositories
from scripts import sample_data

FILES = {file.path: file.body for file in repositories.content("").files}


def test_the_table_holds_the_rows_that_are_drawn() -> None:
    stored = pq.ParquetFile(io.BytesIO(FILES["lakes.parquet"]))
    assert stored.read() == sample_data.table()
    assert stored.metadata.num_rows == sample_data.ROWS
    assert stored.num_row_groups > 1


def test_the_texts_are_those_of_the_program() -> None:
    made = dict(sample_data.files())
    assert FILES.keys() == made.keys()
    for path in (each for each in FILES if each.endswith((".md", ".csv"))):
        assert FILES[path] == made[path]


def test_the_archive_stays_small() -> None:
    assert sample_data.TARGET.stat().st_size < 200_000
