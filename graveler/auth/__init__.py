"""Who is calling: the administrator's credentials, sessions, and the check of every request."""
