"""The secrets of profiles in the keyring of the system, if the package `keyring` is installed.

A profile whose secrets are there has the mark `keyring = true` in credentials.toml instead of
them, so that commands with other profiles import nothing.  A machine without a keyring, or with a
locked one at login, keeps the secrets in the file.
"""

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from graveler.core.errors import Unavailable
from graveler.core.settings import environment

OFF_VARIABLE: Final = "GRAVELER_KEYRING"  # `off`: keep secrets in the file
_SERVICE: Final = "graveler"


def save(name: str, secrets: Mapping[str, str]) -> bool:
    """Keep the secrets of a profile; whether the system could."""
    keyring = _keyring()
    if keyring is None:
        return False
    try:
        keyring.set_password(_SERVICE, name, json.dumps(dict(secrets)))
    except Exception:  # each backend has errors of its own
        return False
    return True


def load(name: str) -> Mapping[str, str]:
    """The secrets of a profile.  Raises `Unavailable` if the keyring does not have them."""
    keyring = _keyring()
    try:
        text = keyring.get_password(_SERVICE, name) if keyring is not None else None
        values = json.loads(text) if text else {}
    except Exception as error:  # each backend has errors of its own
        raise Unavailable(f"keyring cannot be read: profile={name}: {error}") from error
    if not isinstance(values, dict) or not values:
        raise Unavailable(
            f"the keyring has no secret of the profile {name}: unlock it, or sign in anew: "
            f"graveler login --profile {name}"
        )
    return {str(key): str(value) for key, value in values.items()}


def forget(name: str) -> None:
    """Delete the secrets of a profile, if they are there."""
    keyring = _keyring()
    if keyring is not None:
        try:
            keyring.delete_password(_SERVICE, name)
        except Exception:  # it has none, or is locked: nothing refers to it any more
            return


def _keyring() -> Any:
    """The package, if it is installed and has a keyring to talk to; else None."""
    if environment().get(OFF_VARIABLE, "").lower() in ("off", "0", "no", "false"):
        return None
    try:
        keyring = import_module("keyring")
        works = float(keyring.get_keyring().priority) > 0
    except Exception:  # not installed, or broken
        return None
    return keyring if works else None
