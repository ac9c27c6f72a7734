"""`python -P -m graveler`: the console script."""

import sys

from graveler.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
