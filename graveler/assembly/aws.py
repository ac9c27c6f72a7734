"""The store on AWS that a template has made: open it, and begin again in a copy of the process.

The secret is read when the store is opened; nothing else is sent before the first verb.  For the
functions and the tests.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from graveler.assembly.aws_drivers import aws_drivers
from graveler.assembly.drivers import ports_of
from graveler.assembly.secret import Secret, read_secret
from graveler.aws import AwsSession, AwsSettings
from graveler.block.signature import Grant
from graveler.clock import SystemIds
from graveler.engine.ports import Ports
from graveler.errors import Unauthenticated
from graveler.settings import Deployment


@dataclass(frozen=True, slots=True)
class Aws:
    """An open store on AWS.  `secret.key` is what keys are derived from."""

    ports: Ports
    session: AwsSession
    secret: Secret
    ids: SystemIds

    def thaw(self) -> None:
        """To be called in each process that begins as a copy of another: what was drawn by chance
        before must not be used by both."""
        self.ids.forget()


class StorageSigns:
    """On AWS the storage itself verifies presigned requests; none of them is ours."""

    def verify(self, method: str, name: str, query: Mapping[str, str], content_type: str) -> Grant:
        """Raises `Unauthenticated`, always."""
        raise Unauthenticated("presigned url is not valid here")


def open_aws(deployment: Deployment) -> Aws:
    """Open the store that a deployment made.  Errors: those of `read_secret`."""
    session, ids = AwsSession(AwsSettings(endpoint_url=deployment.endpoint_url)), SystemIds()
    secret = read_secret(session, deployment.secret)
    ports = ports_of(aws_drivers(session, deployment, ids), secret.key, secret.before)
    return Aws(ports, session, secret, ids)
