"""Commands that write sections of one document keep those of the others."""

from benchmarks.sections import others, placed

DOCUMENT = "# Title\n\ntext\n\n## One\n\na\n\n## Two\n\nb\n"


def test_a_section_takes_its_place_or_comes_last() -> None:
    assert placed("# Title\n\ntext\n", "One", "a") == "# Title\n\ntext\n\n## One\n\na\n"
    assert placed(DOCUMENT, "One", "new\n") == DOCUMENT.replace("\na\n", "\nnew\n")
    assert placed(DOCUMENT, "Two", "new") == DOCUMENT.replace("\nb\n", "\nnew\n")


def test_what_others_wrote_is_kept() -> None:
    assert "# New\n" + others(DOCUMENT) == "# New\n\n## One\n\na\n\n## Two\n\nb\n"
    assert others("# Title\n") == ""
