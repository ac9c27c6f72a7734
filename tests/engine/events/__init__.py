"""Tests of `graveler.engine.events`."""
