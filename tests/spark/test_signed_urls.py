"""pandas reads objects by signed URLs, whole and in part; it comes with PySpark's environment."""

from pathlib import Path

import pandas

from tests.api.serving import served

ROWS = pandas.DataFrame({"id": range(20_000), "text": [f"row {each}" for each in range(20_000)]})


def test_pandas_reads_signed_urls(tmp_path: Path) -> None:
    with served(tmp_path / "store", public=True) as live:
        repo = live.fresh_repository()
        csv, parquet = ROWS.to_csv(index=False).encode(), ROWS.to_parquet(index=False)
        where = f"/repositories/{repo}/refs/main/objects/stat"

        def url(path: str, body: bytes) -> str:
            assert live.client.upload(repo, path, body).status == 201
            told = live.client.send("GET", where, {"path": path, "presign": "true"}).json
            found: str = told["physical_address"]
            return found

        as_csv = url("rows.csv", csv)
        pandas.testing.assert_frame_equal(pandas.read_csv(as_csv), ROWS)
        pandas.testing.assert_frame_equal(pandas.read_parquet(url("rows.parquet", parquet)), ROWS)
        end = csv.index(b"\n100,")
        part = pandas.read_csv(as_csv, storage_options={"Range": f"bytes=0-{end}"})
        pandas.testing.assert_frame_equal(part, ROWS[:100])
