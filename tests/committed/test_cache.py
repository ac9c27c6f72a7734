"""The budgeted cache: never over budget, what is used stays, threads do not disturb it."""

import random
import threading

from graveler.committed.cache import BudgetedCache


def test_what_does_not_fit_is_not_kept() -> None:
    cache: BudgetedCache[str, int] = BudgetedCache(10)
    cache.put("large", 1, 11)
    assert cache.get("large") is None
    cache.put("exact", 2, 10)
    assert cache.get("exact") == 2
    cache.put("other", 3, 1)
    assert (cache.get("exact"), cache.get("other"), cache.spent) == (None, 3, 1)


def test_the_unused_go_first() -> None:
    cache: BudgetedCache[int, int] = BudgetedCache(10)
    for number in range(10):
        cache.put(number, number, 1)
    for number in (0, 3, 5):
        assert cache.get(number) == number
    for number in range(10, 17):
        cache.put(number, number, 1)
    kept = {number for number in range(17) if cache.get(number) is not None}
    assert {0, 3, 5} <= kept
    assert len(kept) == 10


def test_putting_again_replaces_value_and_cost() -> None:
    cache: BudgetedCache[str, int] = BudgetedCache(10)
    cache.put("a", 1, 8)
    cache.put("a", 2, 3)
    assert (cache.get("a"), cache.spent) == (2, 3)
    cache.clear()
    assert (cache.get("a"), cache.spent) == (None, 0)


def test_values_that_a_caller_names_are_dropped() -> None:
    cache: BudgetedCache[int, int] = BudgetedCache(10)
    for number in range(5):
        cache.put(number, number, 2)
    cache.forget_if(lambda value: value % 2 == 1)
    assert [cache.get(number) for number in range(5)] == [0, None, 2, None, 4]
    assert cache.spent == 6


def test_threads_never_see_wrong_values_nor_spend_more() -> None:
    cache: BudgetedCache[int, int] = BudgetedCache(500)
    wrong: list[object] = []

    def work(seed: int) -> None:
        generator = random.Random(seed)
        for _ in range(5_000):
            number = generator.randrange(200)
            found = cache.get(number)
            if found is None:
                cache.put(number, number * 7, generator.randrange(1, 20))
            elif found != number * 7:
                wrong.append((number, found))
            if cache.spent > 500:
                wrong.append(cache.spent)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert cache.spent <= 500
