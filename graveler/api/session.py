"""Endpoints of the service itself: health, set-up, login, current user, configuration."""

from typing import Any, Final

from graveler.api import answers, cookies
from graveler.api.answers import NO_CONTENT, Answer
from graveler.api.service import Call
from graveler.api.shapes import seconds
from graveler.auth.accounts import NewCredential
from graveler.records import ABSENT

SETUP_HEADER: Final = b"x-graveler-setup-token"
_COOKIE_SECONDS: Final = 30 * 24 * 3600  # the token inside expires earlier
# The version of the lakeFS API that the service implements.  Clients parse the three integers.
_VERSION: Final = {"version": "1.80.0", "version_context": "lakeFS"}


def health_check(_call: Call) -> Answer:
    return NO_CONTENT


def get_setup_state(call: Call) -> Answer:
    exists = call.service.auth.account() is not ABSENT
    return answers.json(
        {
            "state": "initialized" if exists else "not_initialized",
            "comm_prefs_missing": False,
            "login_config": {
                "RBAC": "none",
                "login_url": "",
                "login_url_method": "none",
                "login_failed_message": "The credentials don't match.",
                "login_cookie_names": [cookies.name(call.origin)],
                "logout_url": "",
            },
        }
    )


def setup(call: Call) -> Answer:
    body = call.body
    key = body.get("key")
    chosen = NewCredential(key["access_key_id"], key["secret_access_key"]) if key else ABSENT
    account, credential = call.service.auth.set_up(
        body["username"],
        body.get("email", ""),
        chosen,
        call.header(SETUP_HEADER),
        call.origin.client,
    )
    return answers.json(
        {
            "creation_date": seconds(account.created_ns),
            "access_key_id": credential.access_key_id,
            "secret_access_key": credential.secret_access_key,
        },
        200,
        ((b"cache-control", b"no-store"),),
    )


def login(call: Call) -> Answer:
    body = call.body
    issued = call.service.auth.login(
        body["access_key_id"], body["secret_access_key"], call.origin.client
    )
    now = seconds(call.ports.clock.now_ns())
    cookie = cookies.begun(call.origin, issued.token, now, _COOKIE_SECONDS)
    return answers.json(
        {"token": issued.token, "token_expiration": issued.expires},
        200,
        ((b"set-cookie", cookie), (b"cache-control", b"no-store")),
    )


def get_auth_capabilities(_call: Call) -> Answer:
    return answers.json({"invite_user": False})


def get_current_user(call: Call) -> Answer:
    assert call.account is not ABSENT
    return answers.json(
        {
            "user": {
                "id": call.account.user,
                "creation_date": seconds(call.account.created_ns),
                "friendly_name": "",
                "email": call.account.email,
            }
        }
    )


def _storage(call: Call) -> dict[str, Any]:
    kind = call.service.settings.blockstore_type
    return {
        "blockstore_type": kind,
        "blockstore_id": "",
        "blockstore_description": "",
        "blockstore_namespace_example": f"{kind}://example-bucket/",
        "blockstore_namespace_ValidityRegex": f"^{kind}://",
        # Bucket names are globally unique, so the service cannot suggest one to a browser.
        "default_namespace_prefix": "" if kind == "s3" else f"{kind}://",
        "import_support": True,
        "import_validity_regex": f"^{kind}://",
        "pre_sign_support": call.service.settings.presigns,
        "pre_sign_support_ui": False,
        "pre_sign_multipart_upload": call.service.settings.presigns_parts,
    }


def get_config(call: Call) -> Answer:
    return answers.json(
        {
            "version_config": _VERSION,
            "storage_config": _storage(call),
            "storage_config_list": [],
            "ui_config": {},
            "capabilities_config": {},
        }
    )


def get_version(_call: Call) -> Answer:
    return answers.json(_VERSION)


def get_storage_config(call: Call) -> Answer:
    return answers.json(_storage(call))


def post_stats_events(_call: Call) -> Answer:
    return NO_CONTENT
