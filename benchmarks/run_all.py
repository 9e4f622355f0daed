"""All benchmarks of speed, cost and durability, one row per figure, as ratios.

uv run benchmarks/run_all.py            # minutes; everything at full size
uv run benchmarks/run_all.py --quick    # a smaller size of each
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
BENCHMARKS: dict[str, tuple[str, ...]] = {
    "cost.py": (),
    "rendering.py": (),
    "startup.py": (),
    "scale.py": ("--sizes", "1000", "10000"),
    "faults.py": (),
    "throughput.py": ("--samples", "200", "--repeats", "1"),
    "store.py": ("--replies", "2000", "--samples", "200", "--repeats", "1"),
    "overhead.py": (),
    "live.py": ("--seconds", "20"),
    "killed.py": ("--samples", "200", "--kills", "3"),
    "batch.py": ("--samples", "100", "--kills", "4"),
}


def main() -> int:
    """Run each benchmark; 1 if one missed a goal or failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    options = parser.parse_args()
    failed = []
    for name in BENCHMARKS:
        quick = BENCHMARKS.get(name, ()) if options.quick else ()
        if subprocess.run(
            [sys.executable, str(FOLDER / name), *quick], check=False
        ).returncode:
            failed.append(name)
    for name in failed:
        print(f"{name}: a goal was missed, or it failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
