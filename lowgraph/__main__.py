"""`python -m lowgraph COMMAND`."""

from __future__ import annotations

import sys

from lowgraph.cli import main

sys.exit(main())
