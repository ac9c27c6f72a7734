"""Hooks are off unless hosts are allowed, and then need a secret."""

import json

import pytest

from graveler.core.errors import Invalid
from graveler.core.settings import (
    NO_HOOK_SETTINGS,
    hook_settings,
    hooks_secret_name,
    with_hooks_secret,
)

SECRET = "s" * 32
GIVEN = {"GRAVELER_HOOKS_SECRET": SECRET}


def test_hooks_are_off_without_hosts() -> None:
    assert hook_settings({}) == NO_HOOK_SETTINGS
    assert hook_settings({**GIVEN, "GRAVELER_HOOKS_VARIABLES": "HOME"}) == NO_HOOK_SETTINGS
    assert not NO_HOOK_SETTINGS.hosts


def test_hosts_come_from_the_environment_and_from_the_options() -> None:
    variables = {
        **GIVEN,
        "GRAVELER_HOOKS_ALLOW": "a.example,b.example:8443",
        "GRAVELER_HOOKS_VARIABLES": "LAKEFSACTION_A,LAKEFSACTION_B",
        "LAKEFSACTION_A": "1",
        "LAKEFSACTION_B": "2",
        "LAKEFSACTION_C": "3",
        "HOME": "/root",
    }
    settings = hook_settings(variables, ("c.example:*",), loopback=True)
    assert settings.hosts == ("a.example", "b.example:8443", "c.example:*")
    assert settings.loopback
    assert settings.signing_key == SECRET.encode()
    assert settings.variables == {"LAKEFSACTION_A": "1", "LAKEFSACTION_B": "2"}


def test_secrets_are_not_shown() -> None:
    variables = {
        **GIVEN,
        "GRAVELER_HOOKS_ALLOW": "a.example",
        "GRAVELER_HOOKS_VARIABLES": "LAKEFSACTION_A",
        "LAKEFSACTION_A": "canary",
    }
    shown = repr(hook_settings(variables))
    assert "canary" not in shown and SECRET not in shown


@pytest.mark.parametrize("host", ["https://a.example", "a.example/x", "a b", "a:b", "*:", "a:1:2"])
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(Invalid, match="hooks host must be"):
        hook_settings(GIVEN, (host,))


@pytest.mark.parametrize("secret", ["", "s" * 31])
def test_a_secret_is_needed(secret: str) -> None:
    with pytest.raises(Invalid, match="set GRAVELER_HOOKS_SECRET to at least 32 characters"):
        hook_settings({"GRAVELER_HOOKS_SECRET": secret}, ("a.example",))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOME", "x"),
        ("GRAVELER_HOOKS_SECRET", SECRET),
        ("LAKEFSACTION_A", ""),
        ("LAKEFSACTION_A", "a\r\nHost: b"),
    ],
)
def test_a_variable_needs_its_prefix_and_a_printable_value(name: str, value: str) -> None:
    variables = {**GIVEN, name: value, "GRAVELER_HOOKS_VARIABLES": name}
    with pytest.raises(Invalid, match="variable for hooks must begin with LAKEFSACTION_"):
        hook_settings(variables, ("a.example",))


# ---- a secret in Secrets Manager -----------------------------------------------------------------


def test_a_secret_has_the_key_and_the_variables() -> None:
    variables = {
        "GRAVELER_HOOKS_ALLOW": "a.example",
        "GRAVELER_HOOKS_SECRET_NAME": "hooks",
        "LAKEFSACTION_B": "of the environment",
    }
    assert hooks_secret_name(variables) == "hooks"
    text = json.dumps({**GIVEN, "LAKEFSACTION_A": "1"})
    settings = hook_settings(with_hooks_secret(variables, text))
    assert settings.signing_key == SECRET.encode()
    assert settings.variables == {"LAKEFSACTION_A": "1"}


def test_no_secret_is_read_while_hooks_are_off() -> None:
    assert hooks_secret_name({"GRAVELER_HOOKS_SECRET_NAME": "hooks"}) == ""
    assert hooks_secret_name({"GRAVELER_HOOKS_ALLOW": "a.example"}) == ""


@pytest.mark.parametrize(
    "text", ["", "canary", '["canary"]', '{"a": {"canary": 1}}', '{"canary": 1}', "[" * 100_000]
)
def test_a_secret_of_another_form_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(Invalid, match="must be a JSON object of texts") as refused:
        with_hooks_secret({}, text)
    assert "canary" not in str(refused.value)
    assert refused.value.__cause__ is None and refused.value.__context__ is None


def test_a_secret_sets_nothing_else() -> None:
    text = json.dumps({**GIVEN, "GRAVELER_HOOKS_ALLOW": "b.example"})
    variables = with_hooks_secret({"GRAVELER_HOOKS_ALLOW": "a.example"}, text)
    with pytest.raises(Invalid, match="variable for hooks must begin with LAKEFSACTION_"):
        hook_settings(variables)
