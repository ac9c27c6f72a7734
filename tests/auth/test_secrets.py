"""Derived keys: HKDF as RFC 5869 gives it, and one key for each purpose."""

import pytest

from graveler.auth import accounts, secrets

VECTORS = {  # RFC 5869, appendix A: input, salt, info, output
    "A.1": (
        "0b" * 22,
        "000102030405060708090a0b0c",
        "f0f1f2f3f4f5f6f7f8f9",
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
    ),
    "A.2": (
        bytes(range(0x50)).hex(),
        bytes(range(0x60, 0xB0)).hex(),
        bytes(range(0xB0, 0x100)).hex(),
        "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c6"
        "5e590e09da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87",
    ),
    "A.3": (
        "0b" * 22,
        "",
        "",
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
    ),
}


@pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS)
def test_hkdf_gives_what_the_rfc_gives(vector: tuple[str, str, str, str]) -> None:
    secret, salt, info, expected = (bytes.fromhex(each) for each in vector)
    assert secrets.hkdf(secret, salt, info, len(expected)) == expected


def test_derived_keys_are_hkdf_and_stay_as_they_are() -> None:
    """Accounts of existing stores depend on these very bytes."""
    secret = bytes(range(32))
    made = secrets.derive(secret, accounts.PURPOSE)
    assert made == secrets.hkdf(secret, b"graveler", accounts.PURPOSE.encode(), 32)
    assert secrets.derive(secret, "sessions").hex().startswith(SESSIONS)


SESSIONS = "912844364b4f31bc"
