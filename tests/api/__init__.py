"""The HTTP service through its front door: real sockets, recorded answers, hostile requests."""
