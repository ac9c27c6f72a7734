"""The environment variables of the process, for what reads few of them and starts often.

settings.py gives the variables of a deployment their meaning.  For the commands and the client.
"""

import os
from collections.abc import Mapping


def environment() -> Mapping[str, str]:
    """The environment variables of the process."""
    return os.environ
