"""Authentication: the administrator's credentials, login sessions, and the check of every request.

authenticator  checks each request; start here
callers        who sent a request, what it may do, and the error for what it may not
accounts       the administrator's record
sessions       login sessions: begin, read, end
tokens         their signed tokens
principals     identities of other systems that stand for users
oidc, jwks     bearer tokens of an identity provider; documents: what it has at its URLs;
               subjects: their users; changes: for the trail
sts, codes     logins with an IAM identity, and with a code of an identity provider
logins         begins their sessions; signatures: those of IAM identities that were used
revocations    sessions that were ended early
attempts       limits on failed attempts
proofs         callers that prove a secret by what they sign with it
secrets        keys derived from the store's secret
keyrings       keys that are replaced while the service runs, wrapped under a key outside the store
ciphers        authenticated encryption
rotation       replaces the keys of keyrings
"""
