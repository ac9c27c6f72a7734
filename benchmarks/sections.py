"""Sections of a document that several commands write: each replaces its own, keeps the rest."""

_HEADING = "\n## "


def others(document: str) -> str:
    """All sections, without what stands before the first."""
    begin = document.find(_HEADING)
    return document[begin:] if begin >= 0 else ""


def placed(document: str, heading: str, body: str) -> str:
    """`document` with the section of that heading; where it was, or at the end."""
    section = f"{_HEADING}{heading}\n\n{body.strip()}\n"
    begin = document.find(f"{_HEADING}{heading}\n")
    if begin < 0:
        return document.rstrip("\n") + "\n" + section
    end = document.find(_HEADING, begin + 1)
    return document[:begin] + section + (document[end:] if end >= 0 else "")
