"""Access control: who sends a request, and what it may do.

Authentication:
    authenticator            checks each request; start here
    callers                  who sent a request, what it may do, and the error for what it may not
    credentials              access keys
    accounts                 the administrator's record
    sessions, tokens         login sessions: begin, read, end; their signed tokens
    revocations              sessions that were ended early
    attempts, request_rates  limits on failed attempts; on requests of a user
    proofs                   callers that prove a secret by what they sign with it
    secrets, keyrings        keys derived from the store's secret; keys that are replaced
    ciphers, rotation        authenticated encryption; replaces the keys of keyrings

Identities of other systems:
    principals, identities  identities that stand for users; what a deployment accepts as proof
    oidc, jwks, documents   bearer tokens of an identity provider; what it has at its URLs
    subjects, changes       the users of its tokens; changes for the trail
    sts, codes              logins with an IAM identity, and with a code of an identity provider
    logins, signatures      begins their sessions; signatures of IAM identities that were used

Authorization:
    access                      what a process knows about a caller; start here
    policies, permissions       what statements say together; the right to do an action on a
                                resource
    actions, arns, conditions   the closed set of actions; names of resources; addresses of requests
    entities, directory, links  records of users, groups, policies; their changes; their members
    builtin, keeper             what every lake has; what reading and writing these needs
    communication, usage        preferences of mail; requests answered by month
"""
