"""The sample data for a new repository: an archive beside this module.

`scripts/sample_data.py` builds the archive.  The tests of lakeFS clients name some of its paths and
count its images.
"""

from pathlib import Path
from typing import Final
from zipfile import ZipFile

from graveler.engine.repositories.repository import InitialContent, InitialFile

_ARCHIVE: Final = Path(__file__).with_name("sample.zip")
_MESSAGE: Final = "Add sample data"
_TYPES: Final = {
    ".csv": "text/csv",
    ".md": "text/markdown",
    ".parquet": "application/vnd.apache.parquet",
    ".png": "image/png",
}


def content(committer: str) -> InitialContent:
    """All files of the archive, read into memory: 1.5 MB."""
    with ZipFile(_ARCHIVE) as archive:
        files = [
            InitialFile(name, archive.read(name), _TYPES[Path(name).suffix])
            for name in archive.namelist()
        ]
    return InitialContent(files, committer, _MESSAGE)
