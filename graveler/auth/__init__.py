"""Access control: who sends a request, and what it may do.

`authenticator` checks each request; `access` is what a process knows about a caller.  Records are
in `entities`, rules of rights in `policies`, proofs of other systems in `oidc`, `sts`, `proofs`.
"""
