"""The credentials of the API for a job: the driver reads them and keeps them.

They are not an argument of the job, because arguments appear in logs and in the history of the
cluster.  For `job_runs.py`.
"""

import json
from typing import Final

from graveler.assembly.secret import secret_text
from graveler.aws import AwsSession, AwsSettings
from graveler.errors import Invalid
from graveler.settings import endpoint_url, environment
from graveler.spark.cluster.server import Credentials
from graveler.variables import KEY_VARIABLE, SECRET_VARIABLE

_FIELDS: Final = ("access_key_id", "secret_access_key")


def credentials(secret: str) -> Credentials:
    """The credentials from the named secret of Secrets Manager, or from the environment if `secret`
    is empty.  Errors: `Invalid` if there are none, or the secret has
    another form; `Unavailable`.  One request to Secrets Manager if a secret is named."""
    if not secret:
        variables = environment()
        keys = Credentials(variables.get(KEY_VARIABLE, ""), variables.get(SECRET_VARIABLE, ""))
        if not all(keys):
            raise Invalid(
                f"no credentials: name a secret (--secret), or set {KEY_VARIABLE} and "
                f"{SECRET_VARIABLE} where the driver runs"
            )
        return keys
    text = secret_text(AwsSession(AwsSettings(endpoint_url=endpoint_url())), secret)
    try:
        key, value = (str(json.loads(text)[name]) for name in _FIELDS)
    except (ValueError, TypeError, KeyError):  # the error does not show the text
        raise Invalid(
            f"secret must be a JSON object with {' and '.join(_FIELDS)}: {secret=}"
        ) from None
    return Credentials(key, value)
