"""A user who sends too many requests waits, by the API and by the gateway, with every key."""

from pathlib import Path

from graveler.auth.credentials import NewCredential
from graveler.gateway.route import S3Route
from graveler.gateway.signatures import Authentication
from graveler.http.service import Service, ServiceSettings
from tests.api.serving import ADMINISTRATOR, Client, Reply, Served, basic, served
from tests.gateway.serving import DOMAIN, S3Client, code_of

ONE = ServiceSettings(user_requests_per_second=0.001)  # one at once, the next after 1,000 seconds


def _key(live: Served, user: str) -> NewCredential:
    """A new key of a user."""
    made = live.client.send("POST", f"/auth/users/{user}/credentials").json
    return NewCredential(made["access_key_id"], made["secret_access_key"])


def _route(service: Service) -> S3Route:
    return S3Route(service, (DOMAIN,), Authentication((DOMAIN,)))


def _api(live: Served, key: NewCredential) -> Reply:
    own = basic(key.access_key_id, key.secret_access_key)
    return Client(live.client.host, live.client.port, own).send("GET", "/user")


def test_a_user_has_one_rate_and_others_have_their_own(tmp_path: Path) -> None:
    with served(tmp_path / "store") as live:
        for user in ("ann", "bob"):
            live.client.send("POST", "/auth/users", body={"id": user})
        first, second, other = _key(live, "ann"), _key(live, "ann"), _key(live, "bob")
    with served(tmp_path / "store", settings=ONE, further=_route) as live:
        assert _api(live, first).status == 200
        refused = _api(live, second)  # another key of the same user
        assert refused.status == 429 and b"too many requests of this user" in refused.body
        assert 900 < int(refused.headers["retry-after"]) <= 1000
        by_s3 = S3Client(live.client.host, live.client.port, first).send("GET", "/")
        assert (by_s3.status, code_of(by_s3)) == (503, "SlowDown")
        assert 900 < int(by_s3.headers["retry-after"]) <= 1000
        assert _api(live, other).status == 200
        assert S3Client(live.client.host, live.client.port, other).send("GET", "/").status == 503
        wrong = NewCredential(first.access_key_id, "wrong" * 8)
        assert _api(live, wrong).status == 401  # whoever is not the user takes nothing of it
        assert (
            S3Client(live.client.host, live.client.port, ADMINISTRATOR).send("GET", "/").status
            == 200
        )


def test_metrics_count_as_any_request_of_their_user(tmp_path: Path) -> None:
    with served(tmp_path / "store", settings=ONE) as live:
        wrong = Client(live.client.host, live.client.port, basic(ADMINISTRATOR.access_key_id, "w"))
        assert wrong.raw("GET", "/metrics").status == 401
        assert live.client.raw("GET", "/metrics").status == 200
        refused = live.client.raw("GET", "/metrics")
        assert refused.status == 429 and b"too many requests of this user" in refused.body
        assert 900 < int(refused.headers["retry-after"]) <= 1000
        assert live.client.send("GET", "/user").status == 429
        assert live.client.raw("GET", "/_health/ready").status == 200
