"""`python -m gassip` is `gassip`."""

import sys

from gassip.cli import main

sys.exit(main())
