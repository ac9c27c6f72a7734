"""K6: what was acknowledged survives a kill at any moment, and opening needs no repair."""

import random
import signal
import subprocess
import sys
from pathlib import Path

from graveler.kv.rocksdb import RocksStore
from graveler.kv.store import ABSENT, Place
from tests import draws

ROOT = Path(__file__).parents[2]
LIVES = 6


def test_k6_kill_in_a_loop(tmp_path: Path) -> None:
    seed = draws.seed()
    chance = random.Random(seed)
    path = str(tmp_path / "kv")
    present: dict[Place, bytes] = {}
    deleted: set[Place] = set()
    for life in range(LIVES):
        _hear(path, life, chance.randrange(3_000), present, deleted)
        store = RocksStore(path)
        for place, version in present.items():
            row = store.get(*place)
            assert row is not ABSENT, (life, place)
            assert (row.version, row.value) == (version, version * 9)
        for place in deleted:
            assert store.get(*place) is ABSENT, (life, place)
        store.close()
    assert len(present) > 100


def _hear(
    path: str, life: int, lines: int, present: dict[Place, bytes], deleted: set[Place]
) -> None:
    """Let a writer live until it has said so many lines; note all that it said by then."""
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.kv.killed_writer", path, str(life)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    assert writer.stdout is not None
    with writer.stdout as said:
        for number, line in enumerate(said):
            if number == lines:
                writer.send_signal(signal.SIGKILL)
            if not line.endswith(b"\n"):
                break
            _note(line.split(), present, deleted)
    assert writer.wait() == -signal.SIGKILL


def _note(words: list[bytes], present: dict[Place, bytes], deleted: set[Place]) -> None:
    place = (words[1], words[2])
    if words[0] == b"+":
        present[place] = words[3]
    elif words[0] == b"?":
        del present[place]
    else:
        deleted.add(place)
