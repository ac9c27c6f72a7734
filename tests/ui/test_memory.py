"""The visit on the memory drivers; other scenarios are on the embedded ones."""

from playwright.sync_api import Browser

from graveler.api.local import open_service
from graveler.assembly import open_memory
from graveler.assembly.aws import StorageSigns
from graveler.auth import accounts
from graveler.http.service import ServiceSettings
from tests.api.serving import ADMINISTRATOR, ANY_NUMBER, USER, listening
from tests.ui.scene import watched
from tests.ui.visit import REPO, visit

SECRET = bytes(32)


def test_a_visit_to_a_lake_in_memory(browser: Browser) -> None:
    ports = open_memory()
    settings = ServiceSettings(failed_logins=ANY_NUMBER, blockstore_type="mem")
    service = open_service(ports, StorageSigns(), SECRET, settings)
    accounts.create(
        accounts.keeper(ports.kv, ports.clock, ports.ids, SECRET), USER, "", ADMINISTRATOR
    )
    with listening(service) as (client, _), watched(browser, client) as shown:
        visit(shown, ADMINISTRATOR, f"mem://{REPO}")
