"""Tests of `graveler.engine.objects`."""
