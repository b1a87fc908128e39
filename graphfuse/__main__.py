"""`python -m graphfuse`."""

import sys

from graphfuse.cli import main

sys.exit(main())
