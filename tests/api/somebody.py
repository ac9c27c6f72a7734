"""A caller whose rights a test chooses."""

from dataclasses import dataclass, replace
from typing import Any

from graveler.auth import credentials, directory
from graveler.auth.directory import OF_USER
from graveler.auth.permissions import Permission
from tests.api.serving import Client, Served, basic


@dataclass(frozen=True)
class Somebody:
    """A user whose one policy the test writes."""

    live: Served
    name: str
    client: Client

    def may(self, *permissions: Permission, deny: tuple[Permission, ...] = ()) -> None:
        """From now on, this and nothing else."""
        statement: list[Any] = [_statement("allow", each) for each in permissions]
        statement += [_statement("deny", each) for each in deny]
        nothing = _statement("deny", Permission("*", "*"))
        auth = self.live.service.auth
        directory.update_policy(auth.keeper, self.name, statement or [nothing])
        auth.access.forget()

    def may_all_but(self, *denied: str) -> None:
        """From now on, everything but what concerns these resources."""
        deny = tuple(Permission("*", resource) for resource in denied)
        self.may(Permission("*", "*"), deny=deny)


def _statement(effect: str, permission: Permission) -> dict[str, Any]:
    return {"effect": effect, "action": [permission.action], "resource": permission.resource}


def somebody_of(live: Served, name: str = "somebody") -> Somebody:
    """A new user with a key, who may do nothing yet."""
    keeper = live.service.auth.keeper
    directory.create_user(keeper, name)
    directory.create_policy(keeper, name, [_statement("deny", Permission("*", "*"))])
    directory.add(keeper, OF_USER, name, name)
    key, _ = credentials.create(keeper, name)
    header = basic(key.access_key_id, key.secret_access_key)
    return Somebody(live, name, replace(live.client, authorization=header))
