"""A connection that cannot work is refused by the call that makes it, with what was wrong."""

from pathlib import Path

import pytest

import graveler.spark
from graveler.core.errors import Invalid, Unauthenticated
from graveler.spark import Credentials, Lake, connect, entries
from graveler.spark.lake import serve
from tests.spark.lakes import KEYS, write
from tests.spark.verbs.test_land import repository

__all__ = ["repository"]  # a fixture


@pytest.mark.one_version
def test_a_wrong_key_is_refused_with_the_url_and_the_key(lake: Lake) -> None:
    url = lake.session.url
    with pytest.raises(Unauthenticated, match=f"url='{url}' access_key_id=OTHER"):
        connect(lake.spark, url, Credentials("OTHER", KEYS[1]), store=lake.store)


@pytest.mark.one_version
def test_a_wrong_folder_does_not_look_like_lost_objects(
    lake: Lake, repository: str, tmp_path: Path
) -> None:
    write(lake, lake.spark.range(1), f"{repository}/main/t")
    url = lake.session.url
    with pytest.raises(Invalid, match="not the folder of an embedded store"):
        connect(lake.spark, url, KEYS, store=tmp_path)
    with connect(lake.spark, tmp_path / "other", KEYS):
        wrong = connect(lake.spark, url, KEYS, store=tmp_path / "other")
        with pytest.raises(Invalid, match="no object of this repository"):
            entries(wrong, f"{repository}/main")


@pytest.mark.one_version
def test_a_shell_lists_the_verbs() -> None:
    assert {"connect", "import_", "commit"} <= set(dir(graveler.spark))


def test_the_server_of_a_job_imports_no_module_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, here = tmp_path / "mark", tmp_path / "here"
    here.mkdir()
    for name in ("json", "socket", "click", "graveler", "signal"):
        (here / f"{name}.py").write_text(f"open({str(mark)!r}, 'w')\n")
    monkeypatch.chdir(here)
    server = serve(tmp_path / "store", KEYS, [])
    try:
        assert server.url.startswith("http://127.0.0.1:")
    finally:
        server.stop()
    assert not mark.exists()
