"""Reading XML: bounded, without document types, without entities, whatever the body is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.core import limits
from graveler.gateway.errors import S3Error
from graveler.gateway.request import Node, XmlBounds
from graveler.gateway.request import parse_xml as parse_within

_BOUNDS = XmlBounds(limits.xml_delete_bytes_max, limits.xml_delete_elements_max)
_PARTS = XmlBounds(limits.xml_parts_bytes_max, limits.xml_parts_elements_max)
_NAMESPACE = b'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


def parse(body: bytes, root: str) -> Node:
    return parse_within(body, root, _BOUNDS)


def _refused(body: bytes, root: str = "Delete") -> str:
    with pytest.raises(S3Error) as caught:
        parse(body, root)
    return caught.value.s3_code


def test_elements_are_read_with_a_namespace_and_without() -> None:
    plain = b"<Delete><Quiet>true</Quiet><Object><Key>a&amp;b</Key></Object></Delete>"
    expected = Node(
        "Delete", "", (Node("Quiet", "true"), Node("Object", "", (Node("Key", "a&b"),)))
    )
    assert parse(plain, "Delete") == expected
    assert parse(plain.replace(b"<Delete>", b"<Delete " + _NAMESPACE + b">"), "Delete") == expected
    prefixed = (
        b'<?xml version="1.0" encoding="UTF-8"?><s:Delete xmlns:s="x"><s:Quiet>true</s:Quiet>'
        b"<s:Object><s:Key>a&#38;b</s:Key></s:Object></s:Delete>"
    )
    assert parse(prefixed, "Delete") == expected


def test_a_value_that_occurs_twice_is_refused() -> None:
    node = parse(b"<Delete><Quiet>true</Quiet><Quiet>false</Quiet></Delete>", "Delete")
    with pytest.raises(S3Error):
        node.value("Quiet")
    assert node.value("Other", "none") == "none"


_LAUGHS = b"".join(
    b'<!ENTITY l%d "%s">' % (number, b"&l%d;" % (number - 1) * 10) for number in range(1, 10)
)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"   ",
        b"no xml",
        b"<Delete>",
        b"<Delete></Delete><Delete/>",
        b"<Other/>",
        b"<Delete>&undeclared;</Delete>",
        b"<!DOCTYPE Delete><Delete/>",
        b'<!DOCTYPE d [<!ENTITY l0 "lol">' + _LAUGHS + b"]><Delete>&l9;</Delete>",
        b'<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]><Delete>&x;</Delete>',
        b'<!DOCTYPE d SYSTEM "http://127.0.0.1:1/d.dtd"><Delete/>',
        b'<!DOCTYPE d [<!ENTITY % p SYSTEM "http://127.0.0.1:1/p">%p;]><Delete/>',
        b'<?xml-stylesheet href="x"?><Delete/>',
        b"<Delete>" + b"<a>" * 20 + b"</a>" * 20 + b"</Delete>",
        '<?xml version="1.0" encoding="UTF-16"?><Delete/>'.encode("utf-16"),
        b"<Delete>\xff</Delete>",
        b"<Delete>\x00</Delete>",
    ],
)
def test_anything_but_a_plain_document_is_refused(body: bytes) -> None:
    assert _refused(body) == "MalformedXML"


def test_the_size_of_a_body_and_the_number_of_its_elements_are_bounded() -> None:
    assert _refused(b" " * (_BOUNDS.bytes_max + 1)) == "MaxMessageLengthExceeded"
    most = b"<Delete>" + b"<a/>" * (_BOUNDS.elements_max - 1) + b"</Delete>"
    assert len(parse(most, "Delete").children) == _BOUNDS.elements_max - 1
    assert _refused(most.replace(b"<a/>", b"<a/><a/>", 1)) == "MalformedXML"


def test_attributes_and_namespaces_are_bounded_too() -> None:
    """They take as much time as elements."""
    assert parse(b'<Delete a="1" b="2"><Quiet/></Delete>', "Delete").children
    assert _refused(b'<Delete><Quiet a="1"/></Delete>') == "MalformedXML"
    many = b" ".join(b'a%d=""' % number for number in range(300))
    assert _refused(b"<Delete " + many + b"/>") == "MalformedXML"
    for count, refused in (
        (limits.xml_namespaces_max, False),
        (limits.xml_namespaces_max + 1, True),
    ):
        names = b" ".join(b'xmlns:a%d="u"' % number for number in range(count))
        body = b"<Delete " + names + b"/>"
        assert _refused(body) == "MalformedXML" if refused else parse(body, "Delete")


@pytest.mark.parametrize(
    ("root", "bounds", "count"),
    [("Delete", _BOUNDS, 150_000), ("CompleteMultipartUpload", _PARTS, 300_000)],
)
@pytest.mark.parametrize("quote", [b"'", b'"'])
def test_no_tag_goes_on_behind_a_value_that_looks_like_its_end(
    root: str, bounds: XmlBounds, count: int, quote: bytes
) -> None:
    """Thousands of attributes in one tag would keep all threads waiting for its parser."""
    value = quote + b">" + quote
    many = b" ".join(b"a%d=%b" % (number, value) for number in range(count))
    body = b"<%b %b></%b>" % (root.encode(), many, root.encode())
    assert 1_500_000 < len(body) <= bounds.bytes_max
    with pytest.raises(S3Error) as caught:
        parse_within(body, root, bounds)
    assert caught.value.s3_code == "MalformedXML"


@pytest.mark.parametrize(
    "start",
    [
        b"<Delete a='>'>",
        b"<Delete a=\"'\" b='>'>",
        b'<Delete a=\'"\' b=">">',
        b"<!-- ' --><Delete a='>'>",
        b"<!-- \" --><Delete a='b' c='\"' d=\">'\">",
        b"<!-- <a> --><Delete a='>'>",
    ],
)
def test_one_value_that_looks_like_the_end_of_its_tag_is_refused(start: bytes) -> None:
    assert _refused(start + b"</Delete>") == "MalformedXML"
    within = start.replace(b">'", b"'").replace(b'>"', b'"').replace(b">'\"", b"'\"")
    assert parse(within + b"</Delete>", "Delete").name == "Delete"


def test_quotes_and_ends_of_tags_that_belong_to_no_tag_are_text() -> None:
    body = b"<Delete><!-- it's > --><a>\"it's\" ></a><a><![CDATA[it's \" >]]></a></Delete>"
    read = [node.text for node in parse(body, "Delete").children]
    assert read == ['"it\'s" >', "it's \" >"]


def test_a_long_value_is_no_long_tag() -> None:
    assert len(parse(b"<Delete>" + b"a" * 100_000 + b"</Delete>", "Delete").text) == 100_000


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(noise: bytes) -> None:
    for body in (noise, b"<Delete>" + noise + b"</Delete>"):
        try:
            parse(body, "Delete")
        except S3Error as error:
            assert error.s3_code == "MalformedXML"
