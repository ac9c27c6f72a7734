"""`diff --rows`: rows and columns of tables before and after."""

import io
import json
import os
import subprocess
import sys
from typing import Any

import pyarrow
from pyarrow import parquet

from tests.cli.conftest import Lake


def table(rows: int, **types: Any) -> bytes:
    """A Parquet file with columns of zeros."""
    columns = {name: pyarrow.array([0] * rows, type=kind) for name, kind in types.items()}
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), buffer)
    return buffer.getvalue()


def rows(lake: Lake, *words: str) -> dict[str, dict[str, Any]]:
    result = lake.user.run("--json", "diff", "--rows", *words)
    assert result.code == 0, result
    every = json.loads(result.out)
    assert all(
        row.keys() <= {"type", "path", "path_type", "size_bytes", "graveler"} for row in every
    )
    return {row["path"]: {**row, **row.get("graveler", {})} for row in every}


def test_rows_and_columns_of_parquet_files(lake: Lake) -> None:
    kinds = {"a": pyarrow.int32(), "b": pyarrow.int32()}
    lake.put("t.parquet", table(10, **kinds))
    lake.put("gone.parquet", table(3, **kinds))
    lake.commit()
    lake.put("t.parquet", table(12, a=pyarrow.int64(), c=pyarrow.int32()))
    lake.put("new.parquet", table(5, **kinds))
    lake.live.client.send(
        "DELETE", f"/repositories/{lake.name}/branches/main/objects", {"path": "gone.parquet"}
    )
    compared = rows(lake, f"{lake.name}/main")
    changed = compared["t.parquet"]
    assert (changed["rows_before"], changed["rows_after"]) == (10, 12)
    assert changed["columns_added"] == ["c"] and changed["columns_removed"] == ["b"]
    assert changed["columns_changed"] == ["a"]
    assert compared["new.parquet"]["rows_after"] == 5
    assert "rows_before" not in compared["new.parquet"]
    assert compared["gone.parquet"]["rows_before"] == 3
    out = lake.user.run("diff", "--rows", f"{lake.name}/main", "--", "t.").out
    assert out == "changed\tt.parquet\t10\t12\t+c -b ~a\n"


def test_only_the_footer_of_a_large_file_is_read(lake: Lake) -> None:
    buffer = io.BytesIO()
    noise = pyarrow.array([os.urandom(1_000) for _ in range(2_000)])
    parquet.write_table(pyarrow.table({"noise": noise}), buffer, compression="none")
    lake.put("large.parquet", buffer.getvalue())
    result = lake.user.run("-v", "diff", "--rows", f"{lake.name}/main")
    assert result.out.startswith("added\tlarge.parquet\t\t2000")
    reads = [line for line in result.err.splitlines() if "/objects?" in line]
    assert reads and all(" 206 " in line for line in reads)


def test_csv_files_of_several_forms(lake: Lake) -> None:
    lake.put("a.csv", b"id,name\n1,x\n2,y\n")
    lake.put("b.csv", '\ufeffid;name\n1;"two\nlines"\n'.encode())
    lake.put("c.tsv", b"id\tname\n")
    lake.put("empty.csv", b"")
    lake.put("text.txt", b"no table")
    lake.commit()
    lake.put("a.csv", b"id,price\n1,5\n2,6\n3,7\n\n")
    compared = rows(lake, f"{lake.name}/main")
    assert compared["a.csv"]["rows_before"] == 2 and compared["a.csv"]["rows_after"] == 3
    assert compared["a.csv"]["columns_added"] == ["price"]
    first = rows(lake, f"{lake.name}/main~1..main@")
    counts = {path: row.get("rows_after") for path, row in first.items()}
    assert counts == {"a.csv": 2, "b.csv": 1, "c.tsv": 0, "empty.csv": 0, "text.txt": None}


def test_a_diff_of_branches_begins_at_their_merge_base(lake: Lake) -> None:
    name = lake.name
    lake.put("a.csv", b"id\n1\n")
    lake.commit()
    lake.user.run("branch", "create", f"{name}/dev")
    lake.put("a.csv", b"id\n1\n2\n3\n")
    lake.commit()
    lake.put("a.csv", b"id\n1\n2\n", "dev")
    lake.commit("change", "dev")
    row = rows(lake, f"{name}/main", "dev")["a.csv"]
    assert (row["type"], row["rows_before"], row["rows_after"]) == ("conflict", 1, 2)
    row = rows(lake, f"{name}/main..dev")["a.csv"]
    assert (row["type"], row["rows_before"], row["rows_after"]) == ("changed", 3, 2)


def test_without_pyarrow_csv_files_are_counted_still(lake: Lake) -> None:
    lake.put("a.csv", b"id\n1\n")
    lake.put("t.parquet", table(1, a=pyarrow.int32()))
    script = (
        "import sys; sys.modules['pyarrow'] = None; from graveler.cli.main import main; "
        "sys.exit(main())"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, "diff", "--rows", f"{lake.name}/main"],
        env=lake.user.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.splitlines() == ["added\ta.csv\t\t1\t", "added\tt.parquet\t\t\t"]
    assert "t.parquet" in run.stderr and "pip install pyarrow" in run.stderr


def test_what_is_no_table_is_said(lake: Lake) -> None:
    lake.put("broken.parquet", b"PAR1 and nothing else")
    lake.put("tiny.parquet", b"")
    result = lake.user.run("diff", "--rows", f"{lake.name}/main")
    assert result.code == 0 and result.out.count("added\t") == 2
    assert result.err.count("not counted: ") == 2 and "it is not Parquet" in result.err
