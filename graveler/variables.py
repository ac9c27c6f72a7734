"""The environment variables of the process, for what reads few of them and starts often.

settings.py gives the variables of a deployment their meaning.  For the commands and the client.
Those of lakectl are named here, because the commands, the client and Spark read them.
"""

import os
from collections.abc import Mapping
from typing import Final

URL_VARIABLE: Final = "LAKECTL_SERVER_ENDPOINT_URL"
KEY_VARIABLE: Final = "LAKECTL_CREDENTIALS_ACCESS_KEY_ID"
SECRET_VARIABLE: Final = "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"
TOKEN_VARIABLE: Final = "LAKECTL_CREDENTIALS_SESSION_TOKEN"


def environment() -> Mapping[str, str]:
    """The environment variables of the process."""
    return os.environ
