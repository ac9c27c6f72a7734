"""One store read and written by several threads, with less cache and open files than they
need."""

import random
import threading
from pathlib import Path

from graveler.committed import apply, reader, writer
from graveler.committed.ranges import Keyspace
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import TieredFiles
from graveler.core.records import BreakParameters, Record
from tests.committed.stores import NAMESPACE, memory_blocks, value

RECORDS: list[Record] = [(b"%06d" % at, value(at) + b"z" * 100) for at in range(8_000)]


def test_threads_share_a_store(tmp_path: Path) -> None:
    files = TieredFiles(memory_blocks(), tmp_path, 100_000, open_max=2)
    store = SstRangeStore(files, block_cache_bytes=100_000, table_cache_bytes=30_000)
    space = Keyspace(store, NAMESPACE, BreakParameters(raggedness=1_000))
    base = writer.write(space, RECORDS)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        generator = random.Random(seed)
        try:
            for _ in range(8):
                at = generator.randrange(len(RECORDS))
                key, held = RECORDS[at]
                assert reader.get(space, base, key) == held
                start = generator.randrange(len(RECORDS))
                assert list(reader.scan(space, base, RECORDS[start][0])) == RECORDS[start:]
                changed = apply.apply(space, base, [(key, value(seed, address=9))])
                assert reader.get(space, changed.metarange_id, key) == value(seed, address=9)
                expected = [*RECORDS[:at], (key, value(seed, address=9)), *RECORDS[at + 1 :]]
                assert list(reader.scan(space, changed.metarange_id)) == expected
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(10, 14)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
