"""A process that writes to an embedded store, says what was acknowledged, and waits to be killed.

`python killed_writer.py FOLDER LIFE` prints a line for each acknowledged request:
`+ partition key version` for a write, `- partition key` for a deletion, which `? partition key`
announces.
"""

import argparse
import os
import threading

from graveler.kv.rocksdb import RocksSettings, RocksStore
from graveler.kv.store import ABSENT, WRITTEN, Write

THREADS = 4


def say(line: bytes) -> None:
    os.write(1, line + b"\n")


def live(store: RocksStore, life: bytes, thread: int) -> None:
    """Rows of its own: each is written once, and every third is deleted again."""
    partition = b"p%d" % thread
    number = 0
    while True:
        number += 1
        key = b"%s-%06d" % (life, number)
        if number % 50 == 0:
            keys = [b"%s-%d" % (key, part) for part in range(20)]
            store.set_many([Write(partition, each, each * 9, each) for each in keys])
            for each in keys:
                say(b"+ %s %s %s" % (partition, each, each))
        elif number % 2:
            assert store.set_if(partition, key, key * 9, key, ABSENT) is WRITTEN
            say(b"+ %s %s %s" % (partition, key, key))
        else:
            assert store.set_newer(partition, key, key * 9, key, number) is WRITTEN
            say(b"+ %s %s %s" % (partition, key, key))
        if number % 3 == 0 and number % 50:
            say(b"? %s %s" % (partition, key))
            store.delete(partition, [key])
            say(b"- %s %s" % (partition, key))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folder", help="of the store")
    parser.add_argument("life", help="which process it is: its keys begin so")
    given = parser.parse_args()
    store = RocksStore(given.folder, RocksSettings(write_buffer_bytes=128 * 1024))
    for thread in range(THREADS):
        threading.Thread(target=live, args=(store, given.life.encode(), thread)).start()


if __name__ == "__main__":
    main()
