"""How many functions and files a reader meets who follows the README's LangChain chain.

It is run once, from ``capture`` to the printed report; a server of this machine plays the
model that the README names. Functions with a name are counted, of the core and of the
adapter, each one time, with those that an import or another thread enters.

uv run benchmarks/pieces_of_a_run.py [--list]
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import threading
from collections import Counter
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType

from ragmetrics_core.testing import LoopbackServer

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from plausible import plausible_reply

ROOT = Path(__file__).parents[1]
_OURS = re.compile(r"/(langchain_ragmetrics|ragmetrics_core(?!/testing))/")


def example() -> str:
    """The README's chain with its block of ``capture``, which prints the report."""
    blocks = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.M
    )
    (block,) = [text for text in blocks if "langchain_ragmetrics" in text]
    chain, _, _ = block.partition("evaluator = ")
    captured = block[block.index("with capture()") :]
    return f"{chain}{captured}print(report)"


def entered(program: str) -> Counter[str]:
    """By file, how many named functions of ours a program enters in any thread."""
    codes: set[CodeType] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            codes.add(frame.f_code)

    # ``threading`` for the threads that the program starts, ``sys`` for this one
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        exec(compile(program, "<README>", "exec"), {})
    finally:
        sys.setprofile(None)
        threading.setprofile(None)

    functions_by_file: Counter[str] = Counter()
    for code in codes:
        is_named_function = code.co_flags & CO_OPTIMIZED and code.co_name[0] != "<"
        if is_named_function and _OURS.search(code.co_filename):
            functions_by_file[code.co_filename] += 1
    return functions_by_file


def main() -> None:
    """Print how many functions in how many files, with ``--list`` those of each file."""
    with LoopbackServer(plausible_reply) as server:
        os.environ["RAGMETRICS_API_BASE"] = server.base_url
        with contextlib.redirect_stdout(io.StringIO()):
            functions_by_file = entered(example())
    if "--list" in sys.argv:
        for file, count in sorted(functions_by_file.items()):
            print(f"{count:5} {Path(file).relative_to(ROOT)}")
    print(
        f"pieces of a run: {functions_by_file.total()} functions in"
        f" {len(functions_by_file)} files; goal ≤ 900 in 100"
    )


if __name__ == "__main__":
    main()
