"""Opens the store on AWS that a template has created.

Opening reads the secret; no other request is sent before the first verb.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from graveler.assembly.aws_drivers import aws_drivers
from graveler.assembly.drivers import ports_of
from graveler.assembly.kms import KmsWrapper
from graveler.assembly.secret import Secret, read_secret
from graveler.auth.keyrings import Wrapper
from graveler.aws import AwsSession, AwsSettings
from graveler.block.signature import Grant
from graveler.clock import SystemIds
from graveler.engine.ports import Ports
from graveler.errors import Unauthenticated
from graveler.records import ABSENT, Absent
from graveler.settings import Deployment


@dataclass(frozen=True, slots=True)
class Aws:
    """An open store on AWS.  All keys are derived from `secret.key`, or wrapped under it.

    `secret_name`: of the secret in Secrets Manager, which may be rotated while the process runs.
    `wrapper`: wraps the keys instead, if the deployment has a key of KMS for that.
    """

    ports: Ports
    session: AwsSession
    secret: Secret
    ids: SystemIds
    secret_name: str
    wrapper: Wrapper | Literal[Absent.ABSENT] = ABSENT

    def read_again(self) -> tuple[bytes, bytes]:
        """The key of the secret as it is now, and the one before its rotation.  The errors and the
        cost of `read_secret`."""
        secret = read_secret(self.session, self.secret_name)
        return secret.key, secret.before

    def thaw(self) -> None:
        """Discard random bytes that were fetched before.  Each process that starts as a copy of
        another (a restored snapshot) must call this, so that two copies never draw the same
        ids."""
        self.ids.forget()


class StorageSigns:
    """Verifies no presigned request: on AWS, S3 serves and verifies them."""

    def verify(self, method: str, name: str, query: Mapping[str, str], content_type: str) -> Grant:
        """Always raises `Unauthenticated`."""
        raise Unauthenticated("presigned url is not valid here")


def open_aws(deployment: Deployment) -> Aws:
    """Open the store of a deployment.  Errors: those of `read_secret`."""
    session, ids = AwsSession(AwsSettings(endpoint_url=deployment.endpoint_url)), SystemIds()
    secret = read_secret(session, deployment.secret)
    ports = ports_of(aws_drivers(session, deployment, ids), secret.key, secret.before)
    key = deployment.keys_kms_key
    wrapper = KmsWrapper(session, key, deployment.secret) if key else ABSENT
    return Aws(ports, session, secret, ids, deployment.secret, wrapper)
