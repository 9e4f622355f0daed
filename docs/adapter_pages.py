"""Shows the READMEs of the adapters as pages of the site; ``mkdocs.yml`` names this file as a hook."""

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_ADAPTERS = ("langchain", "llamaindex", "haystack")
_ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each adapter, with links that lead to pages of the site."""
    for adapter in _ADAPTERS:
        text = (_ROOT / "integrations" / adapter / "README.md").read_text("utf-8")
        page = text.replace("](../../docs/", "](")
        files.append(File.generated(config, f"{adapter}.md", content=page))
    return files
