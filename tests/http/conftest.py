"""The server of the API's tests, and its clients."""

from tests.api.conftest import client as client
from tests.api.conftest import import_root as import_root
from tests.api.conftest import live as live
from tests.api.conftest import repo as repo
