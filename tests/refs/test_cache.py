"""How long the cache keeps what, and how much of it."""

import threading

from graveler.core.ids import BranchId, RepositoryId
from graveler.core.records import ABSENT, Commit, Versioned
from graveler.refs.cache import RefCache
from tests.refs.graphs import id_of
from tests.refs.stores import branch, repository

REPO = repository()
MAIN = BranchId("main")
FOUND = Versioned(branch(), b"v")
COMMIT = Commit("c", "m", 0)


class StoppedClock:
    """Time passes when the test says so."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now_ns(self) -> int:
        raise AssertionError("a cache must not use a clock that can step back")

    def steady_seconds(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def test_a_branch_is_kept_for_two_seconds() -> None:
    clock = StoppedClock()
    cache = RefCache(clock)
    assert cache.branch(REPO, MAIN) is ABSENT
    cache.put_branch(REPO, MAIN, FOUND)
    clock.sleep(1.9)
    assert cache.branch(REPO, MAIN) == FOUND
    clock.sleep(0.1)
    assert cache.branch(REPO, MAIN) is ABSENT


def test_looking_at_a_branch_does_not_make_it_younger() -> None:
    clock = StoppedClock()
    cache = RefCache(clock)
    cache.put_branch(REPO, MAIN, FOUND)
    for _ in range(4):
        clock.sleep(0.45)
        assert cache.branch(REPO, MAIN) == FOUND
    clock.sleep(0.45)
    assert cache.branch(REPO, MAIN) is ABSENT


def test_a_repository_is_kept_until_ten_seconds_after_its_read_began() -> None:
    clock = StoppedClock()
    cache = RefCache(clock)
    read_at = cache.now()
    clock.sleep(1.9)
    cache.put_repository(REPO, read_at)
    clock.sleep(8.0)
    assert cache.repository(REPO.id) == REPO
    clock.sleep(0.1)
    assert cache.repository(REPO.id) is ABSENT


def test_commits_do_not_age() -> None:
    clock = StoppedClock()
    cache = RefCache(clock)
    cache.put_commit(REPO, id_of(1), COMMIT)
    clock.sleep(1e9)
    assert cache.commit(REPO, id_of(1)) == COMMIT


def test_what_is_forgotten_is_gone() -> None:
    cache = RefCache(StoppedClock())
    cache.put_repository(REPO, cache.now())
    cache.put_branch(REPO, MAIN, FOUND)
    cache.forget_repository(REPO.id)
    cache.forget_branch(REPO, MAIN)
    cache.forget_branch(REPO, BranchId("never"))
    cache.forget_repository(RepositoryId("never"))
    assert cache.repository(REPO.id) is ABSENT
    assert cache.branch(REPO, MAIN) is ABSENT


def test_a_read_that_began_before_a_repository_was_forgotten_is_not_kept() -> None:
    cache = RefCache(StoppedClock())
    read_at = cache.now()
    cache.forget_repository(REPO.id)
    cache.put_repository(REPO, read_at)
    assert cache.repository(REPO.id) is ABSENT
    cache.put_repository(REPO, cache.now())
    assert cache.repository(REPO.id) == REPO


def test_what_is_forgotten_is_gone_however_long_ago_it_was_put() -> None:
    cache = RefCache(StoppedClock())
    cache.put_branch(REPO, MAIN, FOUND)
    for number in range(7_000):
        cache.put_branch(REPO, BranchId(f"b{number}"), FOUND)
    assert cache.branch(REPO, MAIN) == FOUND
    for number in range(7_000):
        cache.put_branch(REPO, BranchId(f"c{number}"), FOUND)
    cache.forget_branch(REPO, MAIN)
    assert cache.branch(REPO, MAIN) is ABSENT


def test_repositories_share_nothing_not_even_under_one_name() -> None:
    cache = RefCache(StoppedClock())
    cache.put_branch(REPO, MAIN, FOUND)
    cache.put_commit(REPO, id_of(1), COMMIT)
    again = repository(uid="u2")
    assert cache.branch(again, MAIN) is ABSENT
    assert cache.commit(again, id_of(1)) is ABSENT


def kept(cache: RefCache, count: int) -> int:
    return sum(cache.commit(REPO, id_of(number)) is not ABSENT for number in range(count))


def test_the_number_of_commits_is_bounded_and_the_latest_stay() -> None:
    cache = RefCache(StoppedClock(), commits_count_max=100)
    for number in range(1_000):
        cache.put_commit(REPO, id_of(number), COMMIT)
        assert cache.commit(REPO, id_of(number)) == COMMIT
    assert 50 <= kept(cache, 1_000) <= 100
    assert cache.commit(REPO, id_of(998)) == COMMIT


def test_commits_that_are_asked_for_stay() -> None:
    cache = RefCache(StoppedClock(), commits_count_max=100)
    cache.put_commit(REPO, id_of(0), COMMIT)
    for number in range(1, 1_000):
        cache.put_commit(REPO, id_of(number), COMMIT)
        if number % 20 == 0:
            assert cache.commit(REPO, id_of(0)) == COMMIT


def test_the_bytes_of_commits_are_bounded_roughly() -> None:
    cache = RefCache(StoppedClock(), commits_bytes_max=1_000_000)
    large = Commit("c", "m" * 50_000, 0, metadata={"k": "v" * 50_000})
    for number in range(200):
        cache.put_commit(REPO, id_of(number), large)
        cache.commit(REPO, id_of(number // 2))
    assert 4 <= kept(cache, 200) <= 12


def test_threads_may_share_it() -> None:
    cache = RefCache(StoppedClock(), commits_count_max=64)
    wrong: list[int] = []

    def work(seed: int) -> None:
        for step in range(3_000):
            number = (seed * 31 + step * 7) % 200
            cache.put_commit(REPO, id_of(number), Commit(str(number), "m", 0))
            found = cache.commit(REPO, id_of((number + step) % 200))
            if found is not ABSENT and found.committer != str((number + step) % 200):
                wrong.append(number)
            cache.put_branch(REPO, MAIN, FOUND)
            cache.forget_branch(REPO, MAIN)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert kept(cache, 200) <= 64
