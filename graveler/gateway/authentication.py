"""Who sent a request: its signature, checked with the secret of the key that it names.

Everything that needs no secret is checked first, without a request to the store.
"""

from collections.abc import Callable, Sequence

from graveler.auth.access import Caller
from graveler.auth.proofs import Matches, Proofs
from graveler.core.errors import Code, Unauthenticated
from graveler.core.records import ABSENT
from graveler.gateway import claims, signatures
from graveler.gateway.claims import Claim, OpenRequest
from graveler.gateway.errors import S3Error
from graveler.gateway.payload import ChunkSeal, Identity, SignedPayload
from graveler.gateway.request import Level, S3Request, address_of, bucket_of_host, domains_of
from graveler.gateway.signatures import ClaimV2, SigningKeys
from graveler.http.service import Service


class Authentication:
    """Identifies callers by their signatures."""

    def __init__(self, domains: Sequence[str], *, signature_v2: bool = False) -> None:
        """`domains`: those of the route.  `signature_v2`: Signature Version 2 is accepted in
        headers, and in presigned URLs that write a key; else only in those that read one."""
        self._domains = domains_of(domains)
        self._signature_v2 = signature_v2
        self._proofs = Proofs()
        self._keys = SigningKeys()

    def identify(
        self, service: Service, request: S3Request, address: Callable[[], str]
    ) -> Identity:
        """The sender of a request, and its body.

        Raises `S3Error`, `Refused` for a key that verifies no signature yet, `Throttled`.  The KV
        requests of `Proofs.identify`.
        """
        opened = claims.open_request(request, service.ports.clock.now_ns())
        if not opened.how:
            raise S3Error("AccessDenied")
        if opened.how == "query of version 2":
            return self._by_url_of_version_2(service, request, opened, address)
        if opened.how == "header of version 2":
            bucket = bucket_of_host(request.header(b"host"), self._domains)
            claim_v2 = signatures.claim_of_header_v2(opened, bucket, allowed=self._signature_v2)
            return self._by_version_2(service, request, claim_v2, address)
        claim = claims.claim(opened)
        proof = _Proof(claim, self._keys)
        caller = self._caller(service, claim.key_id, proof, address)
        seal = proof.seal() if claim.payload.form.has_signed_chunks else ABSENT
        hoisted = tuple(claim.hoisted)
        body = SignedPayload(request.with_headers(hoisted), claim.payload, seal)
        return Identity(caller, body, hoisted)

    def _by_url_of_version_2(
        self, service: Service, request: S3Request, opened: OpenRequest, address: Callable[[], str]
    ) -> Identity:
        host = request.header(b"host")
        place = address_of(host, request.raw_path, self._domains)
        claim = signatures.claim_of_url_v2(
            opened,
            bucket_of_host(host, self._domains),
            has_key=place.level is Level.KEY,
            writes=self._signature_v2,
        )
        return self._by_version_2(service, request, claim, address)

    def _by_version_2(
        self, service: Service, request: S3Request, claim: ClaimV2, address: Callable[[], str]
    ) -> Identity:
        def matches(secret: str, _epoch: str) -> bool:
            return signatures.is_signed_v2(claim, secret)

        caller = self._caller(service, claim.key_id, matches, address)
        return Identity(caller, SignedPayload(request, claim.payload))

    def _caller(
        self, service: Service, key_id: str, matches: Matches, address: Callable[[], str]
    ) -> Caller:
        try:
            return self._proofs.identify(service.auth, key_id, matches, address)
        except Unauthenticated as error:
            unknown = error.code is Code.KEY_NOT_FOUND
            raise S3Error("InvalidAccessKeyId" if unknown else "SignatureDoesNotMatch") from error


class _Proof:
    """Whether a claim is signed with a secret."""

    def __init__(self, claim: Claim, keys: SigningKeys) -> None:
        self._claim = claim
        self._keys = keys
        self._key = b""

    def __call__(self, secret: str, epoch: str) -> bool:
        claim = self._claim
        if epoch:
            self._key = self._keys.get(claim, secret, epoch)
        else:
            self._key = signatures.signing_key(secret, claim.day, claim.region)
        return signatures.is_signed(claim, self._key)

    def seal(self) -> ChunkSeal:
        """What the chunks of the body are signed with, after the claim was found right."""
        claim = self._claim
        return ChunkSeal(self._key, claim.moment, claim.scope, claim.signature)
