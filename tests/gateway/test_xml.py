"""Writing XML: no text of a client becomes an element."""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from graveler.gateway.xml import Markup, Template, document, joined

_ROOT = Template("<R><K>{}</K></R>")


def _read(markup: Markup) -> str:
    body = document(markup).body
    assert isinstance(body, bytes)
    root = ElementTree.fromstring(body)
    assert [child.tag for child in root] == ["K"]
    assert len(root[0]) == 0
    return root[0].text or ""


@given(st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"])))
def test_a_parser_reads_the_text_that_was_written(text: str) -> None:
    kept = text.replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd")
    assert _read(_ROOT(text)) == kept


def test_line_ends_survive_and_other_controls_become_a_mark() -> None:
    assert _read(_ROOT("a\rb\r\nc\td\n")) == "a\rb\r\nc\td\n"
    assert _read(_ROOT("a\x01b\x00\x1f")) == "a\ufffdb\ufffd\ufffd"
    assert _read(_ROOT("a\ud800")) == "a\ufffd"


def test_markup_is_not_escaped_again_and_everything_else_is() -> None:
    inner = Template("<A>{}</A>")
    assert _ROOT(joined([inner("<"), inner(1)])) == "<R><K><A>&lt;</A><A>1</A></K></R>"
    assert inner("x") + "<" == "<A>x</A>&lt;"
    assert inner('"') == "<A>&#34;</A>"
