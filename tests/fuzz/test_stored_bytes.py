"""The size of a store is right however it was asked for before."""

import os
from pathlib import Path
from random import Random

from simulator.soak.stored_bytes import StoredBytes


def walked(folder: Path) -> int:
    return sum(
        os.lstat(os.path.join(at, name)).st_size
        for at, _, names in os.walk(folder)
        for name in names
    )


def test_it_is_what_a_walk_finds(tmp_path: Path) -> None:
    """Objects come and go, unfinished files and rows grow."""
    store, seed = tmp_path / "store", 7
    print(f"{seed=}")
    random = Random(seed)
    stored = StoredBytes(store)
    assert stored.now() == 0
    folders = [store / name for name in ("objects/a/data/x", "objects/a/_lakefs", "objects/b")]
    changing = [store / name for name in ("objects/%journal", "kv")]
    for folder in (*folders, *changing):
        folder.mkdir(parents=True)
    for step in range(200):
        folder = random.choice(folders)
        objects = sorted(path for path in folder.iterdir() if path.is_file())
        if objects and random.random() < 0.3:
            random.choice(objects).unlink()
        else:
            (folder / f"{step}").write_bytes(bytes(random.randrange(100)))
        with (random.choice(changing) / f"{random.randrange(3)}").open("ab") as file:
            file.write(bytes(random.randrange(100)))
        if random.random() < 0.8:  # as if it was long ago: unchanged folders are not listed
            os.utime(folder, ns=(step, step))
        assert stored.now() == walked(store), step


def test_objects_that_it_knows_are_not_asked_again(tmp_path: Path) -> None:
    folder = tmp_path / "objects" / "a"
    folder.mkdir(parents=True)
    for number in range(9):
        (folder / f"{number}").write_bytes(b"1")
    stored = StoredBytes(tmp_path)
    assert stored.now() == 9
    before = os.stat(folder).st_mtime_ns - 2 * 10**9
    (folder / "0").write_bytes(b"22")  # no object does this
    assert stored.now() == 9
    os.utime(folder, ns=(before, before))
    assert stored.now() == 9
    (folder / "9").write_bytes(b"1")
    os.utime(folder, ns=(before, before))  # as if nothing was added: it is not listed
    assert stored.now() == 9
    assert StoredBytes(tmp_path).now() == 11
