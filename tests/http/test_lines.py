"""Rendered lines: those of the function, made once, within the budget in every use."""

import gc
import random
import threading
import tracemalloc
from collections.abc import Sequence

import pytest

from graveler.core.records import Record
from graveler.http.answers import RenderedLines
from tests.api.serving import Client

RECORDS = [(f"path/{number:05}".encode(), random.randbytes(150)) for number in range(4_000)]


class _Rendering:
    """Renders lines and remembers for which records."""

    def __init__(self) -> None:
        self.asked: list[Record] = []

    def __call__(self, context: str, records: Sequence[Record]) -> list[bytes]:
        self.asked += records
        return [context.encode() + key + value for key, value in records]


def test_a_line_is_made_once_for_each_context() -> None:
    render = _Rendering()
    lines = RenderedLines(render, 1 << 20)
    records = RECORDS[:100]
    for context in ("a", "b", "a"):
        expected = [context.encode() + key + value for key, value in records]
        assert lines.of(context, records) == expected
    assert render.asked == records * 2
    changed = (records[0][0], b"another value")
    assert lines.of("a", [changed]) == [b"a" + changed[0] + changed[1]]
    assert lines.of("a", []) == []


def test_lines_are_charged_with_what_they_hold() -> None:
    lines = RenderedLines(_Rendering(), 64 << 20)
    gc.collect()
    tracemalloc.start()
    try:
        # Fresh records: nobody else holds them.
        lines.of("context", ((bytes(bytearray(k)), bytes(bytearray(v))) for k, v in RECORDS))
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.75 * held < lines.spent < 1.5 * held


@pytest.mark.parametrize("contexts", [1, 5_000])
def test_the_budget_is_never_exceeded(contexts: int) -> None:
    budget = 300_000
    lines = RenderedLines(_Rendering(), budget)
    for at in range(0, len(RECORDS), 10):
        page = RECORDS[at : at + 10]
        context = str(at % contexts)
        assert lines.of(context, page) == [context.encode() + k + v for k, v in page]
        assert lines.spent <= budget
    assert lines.spent > budget / 20


def test_lines_that_are_used_outlive_those_that_are_not() -> None:
    render = _Rendering()
    lines = RenderedLines(render, 300_000)
    hot, others = RECORDS[:100], RECORDS[100:]
    for at in range(0, len(others), 50):
        lines.of("", hot)
        lines.of("", others[at : at + 50])
    assert render.asked == [*hot, *others]  # each once, although all take five times the budget


def test_what_fits_into_half_of_the_budget_is_never_made_again() -> None:
    render = _Rendering()
    lines = RenderedLines(render, 1 << 20)
    kept = RECORDS[:800]
    for _ in range(5):
        for at in range(0, len(kept), 100):
            lines.of("a", kept[at : at + 100])
    assert render.asked == kept
    assert (1 << 18) < lines.spent <= 1 << 19


def test_a_line_that_is_larger_than_the_budget_is_not_kept() -> None:
    render = _Rendering()
    lines = RenderedLines(render, 20_000)
    large, small = (b"large", bytes(30_000)), (b"small", b"value")
    for _ in range(2):
        assert lines.of("", [small, large]) == [b"smallvalue", b"large" + large[1]]
    assert render.asked == [small, large, large]
    assert lines.spent < 3_000


def test_threads_get_their_own_lines() -> None:
    lines = RenderedLines(_Rendering(), 100_000)
    wrong: list[object] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(300):
            context, at = str(chance.randrange(3)), chance.randrange(len(RECORDS) - 50)
            page = RECORDS[at : at + 50]
            if lines.of(context, page) != [context.encode() + k + v for k, v in page]:
                wrong.append((context, at))
            if lines.spent > 100_000:
                wrong.append(lines.spent)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_listing_shows_every_object_as_a_look_up_does(client: Client, repo: str) -> None:
    """Whatever was listed before: another state, with other fields, without metadata."""
    where = f"/repositories/{repo}/refs/main/objects"
    staged = f"/repositories/{repo}/branches/main/objects"

    def listed(**query: str) -> list[dict[str, object]]:
        results: list[dict[str, object]] = client.send("GET", f"{where}/ls", query).json["results"]
        return results

    def looked_up(path: str, **query: str) -> dict[str, object]:
        answer: dict[str, object] = client.send(
            "GET", f"{where}/stat", {"path": path, **query}
        ).json
        return answer

    paths = ["a", "b/1", "b/2", 'odd "\\\u00fc\n']
    for content in (b"old", b"new and longer"):
        for path in paths:
            headers = {"x-lakefs-meta-of": content.decode()} if path != "a" else {}
            sent = client.send("POST", staged, {"path": path}, body=content, headers=headers)
            assert sent.status == 201
        for _ in range(2):
            shown = [looked_up(path) for path in paths]
            assert [{"metadata": {}, **line} for line in listed()] == shown
            assert shown[1]["metadata"] == {"of": content.decode()}
            bare = listed(user_metadata="false")
            assert [line["path"] for line in bare] == paths
            assert all("metadata" not in line for line in bare)
            kinds = [(line["path"], line["path_type"]) for line in listed(delimiter="/")]
            expected = [("a", "object"), ("b/", "common_prefix"), (paths[3], "object")]
            assert kinds == expected
        client.send("POST", f"/repositories/{repo}/branches/main/commits", body={"message": "m"})
