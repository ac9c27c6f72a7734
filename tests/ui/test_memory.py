"""Five scenarios on the memory drivers; all others are on the embedded ones."""

from collections.abc import Iterator

import pytest

from graveler.api.local import open_service
from graveler.assembly import open_memory
from graveler.assembly.aws import StorageSigns
from graveler.auth import accounts
from graveler.http.service import ServiceSettings
from tests.api.serving import ADMINISTRATOR, ANY_NUMBER, USER, listening
from tests.support.page_suite import PageSuite, Place

SECRET = bytes(32)


class TestMemory(PageSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def place(cls) -> Iterator[Place]:
        ports = open_memory()
        settings = ServiceSettings(failed_logins=ANY_NUMBER, blockstore_type="mem")
        service = open_service(ports, StorageSigns(), SECRET, settings)
        keeper = accounts.keeper(ports.kv, ports.clock, ports.ids, SECRET)
        accounts.create(keeper, USER, "", ADMINISTRATOR)
        with listening(service) as (client, _):
            yield Place(client, ADMINISTRATOR, "mem://")
