"""What a watched application pays per run, in each framework: one process each, printed one after the other.

uv run benchmarks/overhead.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FRAMEWORKS = ("langchain", "llamaindex", "haystack")


def main() -> int:
    """Run the benchmark of each framework; 1 if any is over its limit."""
    codes = []
    for framework in FRAMEWORKS:
        print(f"== {framework}", flush=True)
        script = Path(__file__).with_name(f"overhead_{framework}.py")
        codes.append(
            subprocess.run([sys.executable, str(script)], check=False).returncode
        )
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
