"""Action files: what they say, and what is refused before any event depends on it."""

import pytest

from graveler.core import limits
from graveler.core.errors import Invalid
from graveler.engine import hooks as events
from graveler.hooks.actions import EVENTS, Airflow, Condition, Lua, Webhook, parse
from graveler.hooks.yaml_text import parse as parse_yaml

WHOLE = """
name: check formats
description: nothing but parquet
on:
  pre-merge:
    branches: [main, "release-*"]
  pre-create-tag:
    tags: ["v?"]
  post-commit:
hooks:
  - id: only_parquet
    type: webhook
    description: asks
    properties:
      url: https://hooks.example.com/parquet?x=1
      timeout: 1m
      query_params:
        prefix: [a, b]
        deep: 3
        old: true
      headers:
        X-Secret: "{{ ENV.LAKEFSACTION_TOKEN }}"
  - id: tell
    type: airflow
    if: failure()
    properties:
      url: https://airflow.example.com
      dag_id: clean.up
      username: me
      password: "{{ ENV.LAKEFSACTION_PASSWORD }}"
      dag_conf: {deep: {deeper: [1, 2]}}
      wait_for_dag: true
      timeout: 1.5s
"""


def test_an_action_file_names_events_and_hooks() -> None:
    action = parse("a.yaml", WHOLE.encode())
    assert action.name == "check formats"
    assert action.on == {
        "pre-merge": ("main", "release-*"),
        "pre-create-tag": ("v?",),
        "post-commit": (),
    }
    first, second = action.hooks
    assert (first.id, first.condition) == ("only_parquet", Condition.SUCCESS)
    assert first.call == Webhook(
        "https://hooks.example.com/parquet?x=1",
        {"X-Secret": "{{ ENV.LAKEFSACTION_TOKEN }}"},
        (("prefix", "a"), ("prefix", "b"), ("deep", "3"), ("old", "true")),
        60.0,
    )
    assert second.condition is Condition.FAILURE
    assert second.call == Airflow(
        "https://airflow.example.com",
        "clean.up",
        "me",
        "{{ ENV.LAKEFSACTION_PASSWORD }}",
        {"deep": {"deeper": [1, 2]}},
        True,
        1.5,
    )


def test_an_action_matches_events_by_globs_of_names() -> None:
    action = parse("a.yaml", WHOLE.encode())
    assert action.matches("pre-merge", "main")
    assert action.matches("pre-merge", "release-1")
    assert not action.matches("pre-merge", "dev")
    assert not action.matches("post-merge", "main")
    assert action.matches("pre-create-tag", "v1")
    assert not action.matches("pre-create-tag", "v10")
    assert action.matches("post-commit", "any")


def test_every_event_can_be_named() -> None:
    kinds = {
        events.COMMIT,
        events.MERGE,
        events.REVERT,
        events.CHERRY_PICK,
        events.CREATE_BRANCH,
        events.DELETE_BRANCH,
        events.CREATE_TAG,
        events.DELETE_TAG,
    }
    named = {events.PREPARE} | {f"{moment}-{kind}" for kind in kinds for moment in ("pre", "post")}
    assert set(EVENTS) == named
    on = "\n".join(f"  {event}:" for event in EVENTS)
    text = f"on:\n{on}\nhooks:\n  - id: a\n    type: lua\n"
    action = parse("file.yaml", text.encode())
    assert set(action.on) == named
    assert action.name == "file.yaml"  # without a name of its own
    assert action.hooks[0].call == Lua()


HOOK = "{id: a, type: webhook, properties: {url: 'https://x.example'}}"


def _with(hook: str = HOOK, on: str = "{pre-commit: }", more: str = "") -> str:
    return f"on: {on}\nhooks: [{hook}]\n{more}"


def _webhook(properties: str) -> str:
    return _with(f"{{id: a, type: webhook, properties: {{{properties}}}}}")


def _airflow(properties: str) -> str:
    return _with(f"{{id: a, type: airflow, properties: {{{properties}}}}}")


REFUSED: dict[str, tuple[str | bytes, str]] = {
    "no yaml": ("name: [", "is not YAML"),
    "no utf-8": (b"\xff", "is not UTF-8"),
    "empty": ("", "the file must be a mapping"),
    "list": ("- a", "the file must be a mapping"),
    "no events": ("hooks: []", "on must be a mapping"),
    "empty events": ("on: {}\nhooks: []", "on must name at least one event"),
    "no hooks": ("on: {pre-commit: }", "hooks must be a list"),
    "empty hooks": ("on: {pre-commit: }\nhooks: []", "hooks must be a list"),
    "too many hooks": (_with(", ".join(["a"] * 101)), "hooks must be at most 100"),
    "unknown field": (_with(more="one: 1"), "field is unknown: 'one'"),
    "unknown event": (_with(on="{pre-comit: }"), "event is unknown: 'pre-comit'"),
    "name": (_with(more="name: 3"), "name must be a text"),
    "long name": (_with(more=f"name: {'n' * 256}"), "name must have at most 255 characters"),
    "branches of a tag": (
        _with(on="{pre-create-tag: {branches: [a]}}"),
        "field is unknown: 'branches'; known: tags",
    ),
    "event": (_with(on="{pre-commit: main}"), "pre-commit must be a mapping"),
    "patterns": (_with(on="{pre-commit: {branches: main}}"), "must be a list of patterns"),
    "no text": (_with(on="{pre-commit: {branches: [1]}}"), "must be a list of patterns"),
    "many patterns": (
        _with(on="{pre-commit: {branches: [" + "a, " * 101 + "]}}"),
        "at most 100 patterns",
    ),
    "class": (_with(on="{pre-commit: {branches: ['[a-c]']}}"), "none of [ ]"),
    "empty pattern": (_with(on="{pre-commit: {branches: ['']}}"), "pattern must have 1 to"),
    "hook": (_with("a"), "hook 1 must be a mapping"),
    "unknown in hook": (_with("{id: a, type: webhook, typ: b}"), "hook 1: field is unknown: 'typ'"),
    "no id": (_with("{type: webhook}"), "hook 1: id must be a text"),
    "id": (_with("{id: 1a, type: webhook}"), "hook 1: id must be letters"),
    "same id": (_with(f"{HOOK}, {HOOK}"), "hooks must have different ids"),
    "type": (_with("{id: a, type: shell}"), "type must be webhook or airflow: 'shell'"),
    "condition": (_with("{id: a, type: webhook, if: never()}"), "if must be one of success()"),
    "properties": (_with("{id: a, type: webhook, properties: 1}"), "properties must be a mapping"),
    "no url": (_webhook(""), "url must be a text"),
    "scheme": (_webhook("url: 'file:///etc/passwd'"), "url must be https://"),
    "gopher": (_webhook("url: 'gopher://x/'"), "url must be https://"),
    "no host": (_webhook("url: 'https:///x'"), "url must be https://"),
    "user": (_webhook("url: 'https://a:b@x.example/'"), "url must be https://"),
    "backslash": (_webhook("url: 'https://x.example\\@y'"), "url must be https://"),
    "space": (_webhook("url: 'https://x.example/ y'"), "url must be https://"),
    "line": (_webhook('url: "https://x.example/\\r\\nA: b"'), "url must be https://"),
    "unicode": (_webhook("url: 'https://ex\u00e4mple/'"), "url must be https://"),
    "port": (_webhook("url: 'https://x.example:99999/'"), "url is not valid"),
    "port 0": (_webhook("url: 'https://x.example:0/'"), "a port of 1 to 65535"),
    "fragment": (_webhook("url: 'https://x.example/#a'"), "no fragment"),
    "bracket": (_webhook("url: 'https://[x/'"), "url is not valid"),
    "timeout": (_webhook("url: 'https://x.example', timeout: soon"), "timeout must be a duration"),
    "no timeout": (_webhook("url: 'https://x.example', timeout: ''"), "timeout must be a duration"),
    "zero": (_webhook("url: 'https://x.example', timeout: 0s"), "timeout must be at most 60s"),
    "long": (_webhook("url: 'https://x.example', timeout: 61s"), "timeout must be at most 60s"),
    "header": (_webhook("url: 'https://x.example', headers: {Host: y}"), "header is not allowed"),
    "header name": (
        _webhook("url: 'https://x.example', headers: {'a b': y}"),
        "header is not allowed",
    ),
    "header value": (
        _webhook('url: "https://x.example", headers: {a: "b\\r\\nc: d"}'),
        "header is not allowed",
    ),
    "query": (_webhook("url: 'https://x.example', query_params: {a: {b: c}}"), "texts or numbers"),
    "headers": (_webhook("url: 'https://x.example', headers: [a]"), "headers must be a mapping"),
    "dag": (_airflow("url: 'https://x.example', dag_id: '../x'"), "dag_id must be letters"),
    "waits": (
        _airflow("url: 'https://x.example', dag_id: x, wait_for_dag: 3"),
        "wait_for_dag must be true or false",
    ),
    "no password": (
        _airflow("url: 'https://x.example', dag_id: x, username: a"),
        "password must be a text",
    ),
}


@pytest.mark.parametrize("case", REFUSED, ids=list(REFUSED))
def test_what_is_wrong_is_named(case: str) -> None:
    text, words = REFUSED[case]
    raw = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(Invalid) as refused:
        parse("bad.yaml", raw)
    assert "file=bad.yaml" in str(refused.value)
    assert words in str(refused.value)


# ---- yaml ----------------------------------------------------------------------------------------


def test_plain_values_come_out() -> None:
    text = b"a: [1, 2.5, true, False, null, ~, on, yes, 0x1F, 2020-01-01, text, '1']"
    expected = [1, 2.5, True, False, None, None, "on", "yes", "0x1F", "2020-01-01", "text", "1"]
    assert parse_yaml(text) == {"a": expected}


def test_numbers_are_finite() -> None:
    """JSON has no others."""
    long = "9" * 5_000
    text = f"[1.0e+999, -1.0e+999, {long}, .inf, .nan]".encode()
    assert parse_yaml(text) == ["1.0e+999", "-1.0e+999", long, ".inf", ".nan"]


def test_an_alias_stands_for_its_value() -> None:
    assert parse_yaml(b"a: &x {b: 1}\nc: *x") == {"a": {"b": 1}, "c": {"b": 1}}


def _laughs() -> str:
    """Nine levels of nine aliases: 387,420,489 values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    return "\n".join(lines)


HOSTILE = {
    "laughs": (_laughs(), "values"),
    "more aliases": ("a: &a 1\nb: [" + "*a, " * 101 + "]", "at most 100 aliases"),
    "long": (" " * (limits.action_file_length_bytes_max + 1), "at most 65536 bytes"),
    "deep": ("[" * 5_000, "at most 20 levels"),
    "cycle": ("a: &a [*a]", "at most 20 levels"),
    "cycle of mappings": ("a: &a {b: *a}", "at most 20 levels"),
    "wide": ("[" + "a," * 10_001 + "]", "at most 10000 values"),
    "two documents": ("a: 1\n---\nb: 1", "at most 1 document"),
    "object": ("a: !!python/object/apply:os.system [ls]", "tag is not supported"),
    "name": ("a: !!python/name:os.system ", "tag is not supported"),
    "binary": ("a: !!binary aGk=", "tag is not supported"),
    "set": ("a: !!set {b}", "tag is not supported"),
    "key": ("[a]: b", "key must be a text"),
    "twice": ("a: 1\na: 2", "key stands twice: 'a' line=2"),
    "code": (r'a: "\U00110000"', "is not YAML"),
    "greatest code": (r'a: "\Uffffffff"', "is not YAML"),
    "version": (f"%YAML 1.{'9' * 5_000}\n---\na: 1", "is not YAML"),
    "half a character": (r'a: "\ud800"', "text is not Unicode: line=1"),
    "pair of halves": (r'a: "\ud83d\ude00"', "text is not Unicode: line=1"),
    "half a character in a key": ("b: 1\n" + r'"\udfff": 1', "text is not Unicode: line=2"),
    "half a character in a tag": ("a: !<%ed%a0%80> b", "is not YAML"),
    "merge": ("a: &a {b: 1}\nc: {<<: *a}", ""),
}


@pytest.mark.parametrize("case", HOSTILE, ids=list(HOSTILE))
def test_hostile_text_is_refused(case: str) -> None:
    text, words = HOSTILE[case]
    if case == "merge":  # a plain key, which no field has
        assert parse_yaml(text.encode()) == {"a": {"b": 1}, "c": {"<<": {"b": 1}}}
        return
    with pytest.raises(Invalid, match=words):
        parse_yaml(text.encode())
