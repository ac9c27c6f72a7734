"""The local folder driver keeps the contract, and what the contract does not know of folders."""

from pathlib import Path

import pytest

from graveler.block.local import LocalBlocks
from graveler.block.signing import Signer
from graveler.clock import SystemClock, SystemIds
from graveler.testing.block_suite import BlockSuite


def opened(root: Path) -> LocalBlocks:
    clock = SystemClock()
    signer = Signer(b"k" * 32, "http://127.0.0.1:8000", clock)
    return LocalBlocks(root, clock=clock, ids=SystemIds(), signer=signer)


class TestLocalBlocks(BlockSuite):
    bucket = "local://suite"
    presigns = True

    @pytest.fixture
    def blocks(self, tmp_path: Path) -> LocalBlocks:
        return opened(tmp_path / "blocks")
