"""The server of the tests prints the errors of its handlers, but not that a client went away."""

from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.http_server import QuietHandler, http_server


@pytest.mark.parametrize(
    ("error", "is_printed"), [(BrokenPipeError("gone"), False), (ValueError("wrong"), True)]
)
def test_a_client_that_went_away_is_not_printed(
    capsys: pytest.CaptureFixture[str], error: Exception, is_printed: bool
) -> None:
    class Handler(QuietHandler):
        def do_GET(self) -> None:
            raise error

    with http_server(Handler) as url, pytest.raises((URLError, ConnectionError)):
        urlopen(url, timeout=30)  # fails when the connection is closed, after the error
    assert (str(error) in capsys.readouterr().err) == is_printed
