"""Lets the test files of this folder import the applications that they share."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "apps")]
