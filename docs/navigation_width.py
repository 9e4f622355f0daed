"""Shows the navigation of the site from 1120 pixels on; ``mkdocs.yml`` names this file as a hook.

The theme hides it behind a button below 1220 pixels, so on many laptops.
"""

from pathlib import Path
from typing import Any

# of 16 pixels each, as the theme writes them: from which width, and up to which
_WIDTHS = {"76.25em": "70em", "76.234375em": "69.984375em"}


def on_post_build(config: Any) -> None:
    """Write the widths anew in the theme's files.

    Raises:
        RuntimeError: If the theme writes them no more: this hook then does nothing.
    """
    assets = Path(config["site_dir"]) / "assets"
    found: set[str] = set()
    for file in (*assets.glob("*/*.css"), *assets.glob("*/bundle.*.js")):
        text = file.read_text("utf-8")
        for theirs, ours in _WIDTHS.items():
            if theirs in text:
                found.add(f"{theirs} in {file.suffix}")
                text = text.replace(theirs, ours)
        file.write_text(text, "utf-8")
    needed = {"76.25em in .css", "76.234375em in .css", "76.25em in .js"}
    if found != needed:
        raise RuntimeError(f"the theme's widths are not {needed}, but {found}")
