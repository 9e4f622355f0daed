"""Runs a notebook without a kernel; ``python tests/support/notebooks.py FILE…`` writes what its cells show into it."""

import ast
import io
import json
import os
import sys
import tempfile
import warnings
from base64 import b64encode
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells that run."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def shown(value: Any) -> dict[str, Any]:
    """What a notebook keeps of a cell's last value."""
    data: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
    if html := getattr(value, "_repr_html_", str)():
        data["text/html"] = html.splitlines(keepends=True)
    if png := getattr(value, "_repr_png_", None):
        data["image/png"] = b64encode(png()).decode()
        data["text/plain"] = ["<Figure>"]
    return data


def run(notebook: dict[str, Any], name: str) -> None:
    """Run all cells in one namespace, and keep what they print and what their last expression is."""
    namespace: dict[str, Any] = {"__name__": "notebook"}
    for number, cell in enumerate(code_cells(notebook), 1):
        tree = ast.parse("".join(cell["source"]), f"{name} cell {number}")
        last = (
            ast.Expression(tree.body.pop().value)
            if isinstance(tree.body[-1], ast.Expr)
            else None
        )
        printed = io.StringIO()
        value = None
        with redirect_stdout(printed):
            exec(
                compile(tree, f"{name} cell {number}", "exec", dont_inherit=True),
                namespace,
            )
            if last is not None:
                value = eval(
                    compile(last, f"{name} cell {number}", "eval", dont_inherit=True),
                    namespace,
                )
        outputs: list[dict[str, Any]] = []
        if text := printed.getvalue():
            outputs.append(
                {
                    "name": "stdout",
                    "output_type": "stream",
                    "text": text.splitlines(keepends=True),
                }
            )
        if value is not None:
            outputs.append(
                {
                    "data": shown(value),
                    "execution_count": number,
                    "metadata": {},
                    "output_type": "execute_result",
                }
            )
        cell["outputs"], cell["execution_count"] = outputs, number


def said(notebook: dict[str, Any]) -> list[list[str]]:
    """Per cell the text of its outputs, without HTML and pictures."""
    return [
        [
            "".join(
                output["text"] if "text" in output else output["data"]["text/plain"]
            )
            for output in cell["outputs"]
        ]
        for cell in code_cells(notebook)
    ]


if __name__ == "__main__":
    warnings.simplefilter("error", ResourceWarning)
    folder = Path(__file__).parents[2] / "examples"
    check = sys.argv[1:2] == ["--check"]
    for file in sys.argv[1 + check :]:
        path = folder / file
        notebook = json.loads(path.read_text("utf-8"))
        before = said(notebook)
        with tempfile.TemporaryDirectory() as empty:
            os.chdir(empty)
            run(notebook, path.name)
            os.chdir(folder)
        if not check:
            path.write_text(
                json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8"
            )
        elif said(notebook) != before:
            sys.exit(
                f"{file} shows something else now:\n{said(notebook)}\nbefore:\n{before}"
            )
