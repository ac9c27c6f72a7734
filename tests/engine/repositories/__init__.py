"""Tests of `graveler.engine.repositories`."""
