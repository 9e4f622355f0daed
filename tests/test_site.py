"""The site leads to every page, for people and for models that read it."""

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


class _Loader(yaml.SafeLoader):
    """Reads what mkdocs.yml holds beside plain values as None."""


_Loader.add_multi_constructor("", lambda loader, suffix, node: None)


def _pages_of_nav() -> set[str]:
    settings = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), _Loader)
    return set(_leaves(settings["nav"]))


def _leaves(entry: Any) -> Iterator[str]:
    """The pages below an entry of the navigation."""
    if isinstance(entry, str):
        yield entry
        return
    children = entry.values() if isinstance(entry, dict) else entry
    for child in children:
        yield from _leaves(child)


def test_scripts_of_the_site_exist():
    settings = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), _Loader)
    scripts = [*settings["extra_javascript"], *settings["extra"]["polyfills"]]
    assert [script for script in scripts if not (DOCS / script).is_file()] == []


def test_every_page_is_in_the_navigation():
    pages = {
        page.relative_to(DOCS).as_posix()
        for page in (*DOCS.glob("*.md"), *DOCS.glob("reference/*.md"))
    }
    assert pages <= _pages_of_nav()


_TASKS = (
    *("Build", "Choose", "Come", "Compare", "Connect", "Evaluate", "Find", "Gate"),
    *("Know", "Measure", "Score", "Watch", "Write"),
)


def test_a_page_has_the_name_of_its_task_in_the_navigation_and_on_itself():
    settings = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), _Loader)
    start, *sections, look_up = settings["nav"]
    assert list(start) == ["Start here"]
    assert list(look_up) == ["Look up"]
    pages = {
        page: label
        for section in sections
        for entries in section.values()
        for entry in entries
        for label, page in entry.items()
    }
    assert len(pages) > 15
    for page, label in pages.items():
        assert label.split()[0] in _TASKS, label
        # an adapter's page is the README of its package, and has its name
        if (DOCS / page).is_file():
            assert (DOCS / page).read_text("utf-8").startswith(f"# {label}\n"), page


def test_models_are_led_to_every_page():
    text = (DOCS / "llms.txt").read_text("utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert sorted(links) == sorted(_pages_of_nav())
    assert len(links) == len(set(links))


def test_start_here_says_what_it_is_before_it_shows_code():
    text = (DOCS / "index.md").read_text("utf-8")
    first = text.removeprefix("# Start here\n\n").partition("\n\n")[0]
    assert first.startswith("ragmetrics ")
    assert "retrieval and the answers of a RAG application" in first
    assert text.index("| I want to") < text.index("```")


def theme_of(folder: Path, css: str, js: str) -> dict[str, str]:
    """Write the files of a theme; what the hook is given."""
    for name, text in (
        ("stylesheets/main.1.css", css),
        ("javascripts/bundle.1.js", js),
    ):
        file = folder / "assets" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return {"site_dir": str(folder)}


def test_the_navigation_is_seen_on_a_laptop(tmp_path):
    """The theme hides it below 1220 pixels."""
    hook = runpy.run_path(str(DOCS / "navigation_width.py"))["on_post_build"]
    css = "@media (min-width:76.25em){a}@media (max-width:76.234375em){b}"
    hook(theme_of(tmp_path, css, 'media("(min-width: 76.25em)")'))
    written = (tmp_path / "assets/stylesheets/main.1.css").read_text()
    assert written == "@media (min-width:70em){a}@media (max-width:69.984375em){b}"
    assert "70em" in (tmp_path / "assets/javascripts/bundle.1.js").read_text()
    with pytest.raises(RuntimeError, match="widths"):
        hook(theme_of(tmp_path, "@media (min-width:80em){}", ""))
    settings = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), _Loader)
    assert "docs/navigation_width.py" in settings["hooks"]
