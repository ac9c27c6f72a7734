"""Opens what proves identities beside access keys, as the settings of a deployment say.

Used by the commands and the functions.
"""

from graveler.auth.identities import Identities
from graveler.auth.sts import HOSTS, AwsLogin
from graveler.clock import Clock
from graveler.hooks.egress import EgressRules, WebSender
from graveler.records import ABSENT
from graveler.settings import IdentitySettings


def open_identities(settings: IdentitySettings, clock: Clock) -> Identities:
    """The identities of a deployment.  Nothing is requested yet."""
    return Identities(_aws(settings, clock) if settings.aws_accounts else ABSENT)


def _aws(settings: IdentitySettings, clock: Clock) -> AwsLogin:
    sender = WebSender(EgressRules(tuple(HOSTS)), clock)
    return AwsLogin(sender, frozenset(settings.hosts), frozenset(settings.aws_accounts))
