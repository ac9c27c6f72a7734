"""Tests of `graveler.engine.upkeep`."""
