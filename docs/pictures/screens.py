"""Takes the pictures of pages in the documentation: ``uv run docs/pictures/screens.py`` writes them beside itself.

A small application answers 120 questions, once well and once worse. The pictures are what a person sees first of the
page of one run, of the comparison of both, and of a report in a notebook. It needs Chromium and its driver.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from selenium import webdriver

from ragmetrics_core import Report

HERE = Path(__file__).parent
_WIDTH = 1200
_HEIGHT_BY_PICTURE = {"first_screen": 900, "comparison": 820, "notebook": 560}
# As the style sheet of JupyterLab shows the HTML of a cell.
_STYLE_OF_NOTEBOOKS = """
body { font: 15px sans-serif; margin: 1.5em }
table { border-collapse: collapse; font-size: 13px }
td, th { padding: .5em; text-align: right; vertical-align: middle }
thead { border-bottom: 1px solid #bdbdbd }
tbody tr:nth-child(odd) { background: #f5f5f5 }
"""
_KEEPERS = ("Anna Brandt", "Carl Voss", "Mira Holt", "Jonas Reed", "Edda Lund")


def answers(*, wrong_every: int, lost_every: int) -> Iterator[str]:
    """The rows of a run as lines of a file.

    Args:
        wrong_every: One answer in so many names another keeper than its context.
        lost_every: Of one question in so many the retriever finds nothing that helps.
    """
    for number in range(120):
        keeper = _KEEPERS[number % len(_KEEPERS)]
        other_keeper = _KEEPERS[(number + 1) % len(_KEEPERS)]
        fact = f"Lighthouse {number} was kept by {keeper} until {1900 + number}."
        contexts = [fact, "The harbour office is closed on public holidays."]
        answer = f"Lighthouse {number} was kept by {keeper}."
        if number % wrong_every == 1:
            answer = f"{other_keeper} rebuilt it as a school in {1850 + number}."
        if number % lost_every == 2:
            contexts = ["The harbour office is closed on public holidays."]
            answer = "I don't know."
        row = {
            "id": f"lighthouse-{number}",
            "question": f"Who kept lighthouse {number}?",
            "contexts": contexts,
            "answer": answer,
            "reference": fact,
        }
        yield f"{json.dumps(row)}\n"


def run(folder: Path, *arguments: str) -> None:
    """Run the command in a folder; a gate that fails is no error here."""
    command = [sys.executable, "-m", "ragmetrics_core.cli.main", *arguments]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1, 3):
        sys.exit(done.stderr)


def write_pages(folder: Path) -> None:
    """Write the page of each picture into a folder."""
    before = "".join(answers(wrong_every=15, lost_every=20))
    after = "".join(answers(wrong_every=5, lost_every=20))
    (folder / "answers.jsonl").write_text(before, encoding="utf-8")
    (folder / "worse.jsonl").write_text(after, encoding="utf-8")
    judge = ("--judge", "lexical", "--quiet")
    gate = ("--fail-under", "adherence=0.7")
    first_page = ("--report", "first_screen.html")
    run(
        folder,
        "evaluate",
        "answers.jsonl",
        *judge,
        *gate,
        "--out",
        "before.jsonl",
        *first_page,
    )
    run(folder, "evaluate", "worse.jsonl", *judge, "--out", "after.jsonl")
    run(folder, "compare", "before.jsonl", "after.jsonl", "--report", "comparison.html")
    cell = Report.from_jsonl(folder / "before.jsonl")._repr_html_()
    notebook = f"<style>{_STYLE_OF_NOTEBOOKS}</style><body>{cell}</body>"
    (folder / "notebook.html").write_text(notebook, encoding="utf-8")


def take_pictures(folder: Path) -> None:
    """Take the first screen of each page."""
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars"):
        options.add_argument(argument)
    driver_path = shutil.which("chromedriver")
    with webdriver.Chrome(options, webdriver.ChromeService(driver_path)) as browser:
        for name, height in _HEIGHT_BY_PICTURE.items():
            browser.set_window_size(_WIDTH, height)
            browser.get((folder / f"{name}.html").as_uri())
            browser.save_screenshot(str(HERE / f"{name}.png"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        write_pages(Path(work))
        take_pictures(Path(work))
