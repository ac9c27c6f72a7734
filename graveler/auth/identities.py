"""What a deployment accepts as proof of an identity beside its own access keys.

A deployment that accepts nothing else loads none of the modules behind these fields.  For this
folder, api/ and what opens them.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from graveler.records import ABSENT, Absent

if TYPE_CHECKING:
    from graveler.auth.codes import CodeLogin
    from graveler.auth.oidc import OidcIssuer
    from graveler.auth.sts import AwsLogin


@dataclass(frozen=True, slots=True)
class Identities:
    """`aws`: logins of callers with an IAM identity.  `oidc`: whose bearer tokens are accepted.
    `codes`: logins with codes of the same provider."""

    aws: "AwsLogin | Literal[Absent.ABSENT]" = ABSENT
    oidc: "OidcIssuer | Literal[Absent.ABSENT]" = ABSENT
    codes: "CodeLogin | Literal[Absent.ABSENT]" = ABSENT


NO_IDENTITIES: Final = Identities()
