"""What one task of an import does with its rows."""

import random

import pyarrow as pa

from graveler.spark.import_tasks import _sorted_once

SCHEMA = pa.schema(
    [
        ("path", pa.binary()),
        ("address", pa.string()),
        ("size", pa.int64()),
        ("checksum", pa.string()),
        ("mtime", pa.int64()),
        ("metadata", pa.map_(pa.string(), pa.string())),
        ("content_type", pa.string()),
    ]
)


def test_which_duplicate_counts_does_not_depend_on_the_order_of_the_rows() -> None:
    seed = random.randrange(1 << 30)
    print(f"{seed=}")
    chance = random.Random(seed)
    pairs = (None, [], [("k", "1")], [("k", "2")], [("k", "2"), ("a", "1")])
    rows = [
        {"path": b"p%d" % (number % 3), "address": "s3://b/x", "size": size, "checksum": "c"}
        | {"mtime": 5, "metadata": metadata, "content_type": kind}
        for number, (metadata, size, kind) in enumerate(
            (metadata, size, kind)
            for metadata in pairs
            for size in (1, 2)
            for kind in (None, "text/csv")
        )
    ]
    answers = set()
    for _ in range(20):
        chance.shuffle(rows)
        kept, left = _sorted_once(pa.Table.from_pylist(rows, schema=SCHEMA))
        assert kept.schema == left.schema == SCHEMA
        assert kept.column("path").to_pylist() == [b"p0", b"p1", b"p2"]
        assert len(kept) + len(left) == len(rows)
        answers.add(repr(kept.to_pylist()))
    assert len(answers) == 1
