"""A clock that a test sets."""


class StandingClock:
    """Stands still until it is told to go on."""

    def __init__(self, start_ns: int) -> None:
        self._start_ns = start_ns
        self._now_ns = start_ns

    def now_ns(self) -> int:
        return self._now_ns

    def steady_seconds(self) -> float:
        return (self._now_ns - self._start_ns) / 1e9

    def sleep(self, seconds: float) -> None:
        self.go_on(seconds)

    def go_on(self, seconds: float) -> None:
        self._now_ns += int(seconds * 1e9)
