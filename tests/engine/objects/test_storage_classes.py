"""The storage class of an object, and objects taken out of the storage past us."""

import pytest

from graveler.core.errors import Gone, Invalid
from graveler.engine.objects import read, write
from tests.engine.storage import Storage


def test_what_is_not_in_the_storage_has_neither_bytes_nor_a_class(storage: Storage) -> None:
    storage.commit(a="content")
    entry = read.stat(storage.opened, "main", "a")
    assert read.storage_class(storage.opened, entry) == ""
    storage.blocks.delete(read.physical_address(storage.repo, entry))
    for ask in (read.open_body, read.storage_class):
        with pytest.raises(Gone, match="not in the object store"):
            ask(storage.opened, entry)


def test_what_cannot_be_a_class_is_refused_before_anything_is_stored(storage: Storage) -> None:
    before = storage.stored()
    upload = write.Upload([b"content"], storage_class="no class\r\n")
    with pytest.raises(Invalid, match="storage class invalid"):
        write.upload(storage.opened, "main", "a", upload)
    assert storage.stored() == before
