"""Putting the product together: which drivers stand behind the ports of a deployment.

`open_memory` keeps nothing; `open_embedded` keeps everything in one folder.
"""

from graveler.assembly.embedded import Embedded, open_embedded
from graveler.assembly.memory import open_memory

__all__ = ["Embedded", "open_embedded", "open_memory"]
