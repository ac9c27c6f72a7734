"""The environment, read in one place and only when asked.

    GRAVELER_ACCESS_KEY_ID and GRAVELER_SECRET_ACCESS_KEY    the administrator exists with them

For the commands and handlers; nothing below them reads the environment.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from graveler.errors import Invalid

ACCESS_KEY_VARIABLE = "GRAVELER_ACCESS_KEY_ID"
SECRET_KEY_VARIABLE = "GRAVELER_SECRET_ACCESS_KEY"


@dataclass(frozen=True, slots=True)
class AdministratorKeys:
    """Credentials that the deployment fixes; both empty: the set-up call of the API makes them."""

    access_key_id: str = ""
    secret_access_key: str = ""

    @property
    def given(self) -> bool:
        return bool(self.access_key_id)


def environment() -> Mapping[str, str]:
    """The process's environment."""
    return os.environ


def administrator_keys(variables: Mapping[str, str]) -> AdministratorKeys:
    """The credentials that `variables` fix.  Raises `Invalid` if only one of the two is set."""
    key, secret = variables.get(ACCESS_KEY_VARIABLE, ""), variables.get(SECRET_KEY_VARIABLE, "")
    if bool(key) != bool(secret):
        raise Invalid(f"set both {ACCESS_KEY_VARIABLE} and {SECRET_KEY_VARIABLE}, or neither")
    return AdministratorKeys(key, secret)
