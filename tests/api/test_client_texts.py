"""The texts that clients compare come from codes: rewording an error changes none of them."""

from string import Formatter

import pytest

from graveler.api.errors import ANY, TEXTS, text_for
from graveler.core import errors
from graveler.core.errors import Code, GravelerError, NoChanges, NotFound, OutcomeUnknown
from graveler.gateway.errors import OF_ENGINE

CASES = [pytest.param(*key, text, id="-".join(key)) for key, text in TEXTS.items()]
KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, GravelerError) and kind is not GravelerError
]
DEFAULTS = {kind.__name__: kind.code for kind in KINDS}


def _placeholders(text: str) -> tuple[set[str], set[str]]:
    """The names of the request and the fields of the error that a text takes in."""
    found = {name for _, name, _, _ in Formatter().parse(text) if name}
    fields = {name[len("error[") : -1] for name in found if name.startswith("error[")}
    return {name for name in found if not name.startswith("error[")}, fields


@pytest.mark.parametrize(("operation", "code", "text"), CASES)
def test_a_text_follows_from_the_code_and_not_from_the_words(
    operation: str, code: Code, text: str
) -> None:
    names, fields = _placeholders(text)
    given = {name: f"<{name}>" for name in names}
    told = {
        text_for(
            GravelerError(words, code, **{name: f"<{name}>" for name in fields}), operation, given
        )
        for words in ("as it stands", "reworded", "")
    }
    filled = text.replace("{error[", "<").replace("]}", ">").replace("{", "<").replace("}", ">")
    assert told == {filled}


@pytest.mark.parametrize(("operation", "code", "text"), CASES)
def test_a_text_whose_names_are_not_known_gives_way(operation: str, code: Code, text: str) -> None:
    names, fields = _placeholders(text)
    told = text_for(GravelerError("own", code), operation)
    if names or fields:
        general = TEXTS.get((ANY, code), "own")
        assert told == ("own" if "{" in general else general)
    else:
        assert told == text


def test_an_error_without_a_text_for_clients_has_its_own() -> None:
    assert text_for(NotFound("nothing here"), "createTag") == "nothing here"
    assert text_for(ValueError("foreign"), "getObject") == "foreign"


def test_an_unknown_outcome_says_so_once_whatever_its_words() -> None:
    told = [text_for(OutcomeUnknown(words)) for words in ("lost", "lost; outcome unknown: a=b")]
    assert told == ["lost; outcome unknown", "lost; outcome unknown: a=b"]


def test_every_code_of_its_own_has_a_text_for_clients() -> None:
    own = set(Code) - set(DEFAULTS.values())
    of_api = {code for _, code in TEXTS}
    # Only the S3 gateway calls the verbs of uploads in parts that go through the service.
    of_s3 = {code for code in own if code.value.startswith(("part", "upload_"))}
    of_s3 |= {Code.OBJECT_TOO_LARGE, Code.PATH_TOO_LONG}
    of_client = {
        *(Code.CERTIFICATE_REFUSED, Code.TIMED_OUT, Code.CHECK_FAILED, Code.TRANSFER_FAILED)
    }  # only the client raises them
    assert own - of_s3 - of_client <= of_api
    assert not of_api & of_s3
    s3_codes = [OF_ENGINE[code] for code in of_s3]
    assert len(set(s3_codes)) == len(s3_codes) and "InvalidArgument" not in s3_codes


def test_a_kind_keeps_its_code_unless_it_is_given_another() -> None:
    assert NoChanges("x").code is Code.NO_CHANGES
    assert NotFound("x").code is Code.NOT_FOUND and NotFound("x").fields == {}
    named = NotFound("x", Code.REF_NOT_FOUND, ref="main")
    assert named.code is Code.REF_NOT_FOUND and named.fields == {"ref": "main"}
    assert str(named) == "x" and NotFound.code is Code.NOT_FOUND
