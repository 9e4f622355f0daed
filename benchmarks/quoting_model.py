"""A model on this machine for trying out data sets: it writes questions and answers in the words of the chunks.

    python benchmarks/quoting_model.py    # prints the address for --api-base, until it
    is interrupted

It reads nothing and understands nothing. A fact counts as covered if a context quotes
it, so labels made by it are right by construction, and easy for a judge that compares
words.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from dataset_toys import quoting_reply  # the tests label with the same replies
from loopback import LoopbackServer

if __name__ == "__main__":
    with LoopbackServer(quoting_reply, probability=None) as server:
        print(server.base_url, flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
