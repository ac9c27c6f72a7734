"""Tests of `graveler.engine.gc`."""
