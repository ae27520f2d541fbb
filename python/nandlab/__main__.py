"""`python -m nandlab` is the command line."""

import sys

from nandlab.cli import main

sys.exit(main())
