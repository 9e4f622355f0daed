"""The examples of a page: they run in order, and what stands behind one is what it prints."""

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_EXAMPLE = re.compile(
    r"^```python\n(?P<code>.*?)^```$(?:\n\n?```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)


class Example(NamedTuple):
    """A block of Python on a page.

    Attributes:
        code: The block.
        line: The line of the page before its first one, counted from 0.
        output: The block of text behind it, which shows what it prints; None where
            there is no such block.
    """

    code: str
    line: int
    output: str | None


def examples(page: str) -> Iterator[Example]:
    """The blocks of Python of a page, in order."""
    for block in _EXAMPLE.finditer(page):
        line = page[: block.start("code")].count("\n")
        yield Example(block["code"], line, block["output"])


def run_examples(page: str, path: Path, names: dict[str, Any]) -> list[Example]:
    """Run the blocks of Python of a page, one after the other, and return them.

    Args:
        page: The text of the page.
        path: Where it lies; errors name it.
        names: What the blocks know from outside, and where they leave their names.

    Raises:
        AssertionError: If a block prints something else than the page shows behind it.
    """
    run = []
    for example in examples(page):
        run_example(example, path, names)
        run.append(example)
    return run


def run_example(example: Example, path: Path, names: dict[str, Any]) -> None:
    """Run one block; what it prints is also written to the output of the test.

    Raises:
        AssertionError: If it prints something else than the page shows behind it.
    """
    lines_before = "\n" * example.line
    code = compile(lines_before + example.code, str(path), "exec", dont_inherit=True)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    sys.stdout.write(printed.getvalue())
    if example.output is not None:
        place = f"{path.name}, line {example.line}"
        assert shows(example.output, printed.getvalue()), (
            f"{place} prints:\n{printed.getvalue()}\nand the page shows:\n{example.output}"
        )


def shows(output: str, printed: str) -> bool:
    """Whether a page's output is what was printed; "…" stands for any text left out."""
    pieces = _without_line_ends(output).split("…")
    pattern = ".*".join(re.escape(piece) for piece in pieces)
    return bool(re.fullmatch(pattern, _without_line_ends(printed), re.DOTALL))


def _without_line_ends(text: str) -> str:
    """The text without spaces at the ends of its lines and lines at its end."""
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines())
