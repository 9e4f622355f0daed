"""Shows the READMEs of the adapters as pages of the site; ``mkdocs.yml`` names this file as a hook.

In the repository a page links to ``../integrations/langchain/README.md``, on the site to ``langchain.md``; a README
links to ``../../docs/report.md``, on the site to ``report.md``.
"""

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


def on_page_markdown(markdown: str, **page: Any) -> str:
    """Let links to an adapter's README lead to its page on the site."""
    for adapter in _ADAPTERS:
        readme = f"](../integrations/{adapter}/README.md"
        markdown = markdown.replace(readme, f"]({adapter}.md")
    return markdown
