"""Tests of graveler/refs/events."""
