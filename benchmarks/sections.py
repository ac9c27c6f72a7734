"""Sections of a document that several commands write: each replaces its own and keeps the rest."""

_HEADING = "\n## "


def others(document: str) -> str:
    """All sections of a document, without the text before the first one."""
    begin = document.find(_HEADING)
    return document[begin:] if begin >= 0 else ""


def placed(document: str, heading: str, body: str) -> str:
    """`document` with the section of that heading replaced in place, or appended if there is
    none."""
    section = f"{_HEADING}{heading}\n\n{body.strip()}\n"
    begin = document.find(f"{_HEADING}{heading}\n")
    if begin < 0:
        return document.rstrip("\n") + "\n" + section
    end = document.find(_HEADING, begin + 1)
    return document[:begin] + section + (document[end:] if end >= 0 else "")
