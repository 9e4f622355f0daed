"""The site leads to every page, for people and for models that read it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def test_scripts_of_the_site_exist() -> None:
    settings = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), _Loader)
    scripts = [*settings["extra_javascript"], *settings["extra"]["polyfills"]]
    assert [script for script in scripts if not (DOCS / script).is_file()] == []


def test_every_page_is_in_the_navigation() -> None:
    pages = {
        page.relative_to(DOCS).as_posix()
        for page in (*DOCS.glob("*.md"), *DOCS.glob("reference/*.md"))
    }
    assert pages <= _pages_of_nav()


def test_models_are_led_to_every_page() -> None:
    text = (DOCS / "llms.txt").read_text("utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert sorted(links) == sorted(_pages_of_nav())
    assert len(links) == len(set(links))
