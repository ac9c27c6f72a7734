"""Authentication: the administrator's credentials, login sessions, and the check of every request.

authenticator  checks each request; start here
accounts       the administrator's record
tokens         login sessions as signed tokens
principals     identities of other systems that stand for users
revocations    sessions that were ended early
attempts       limits on failed attempts
secrets        keys derived from the store's secret
"""
