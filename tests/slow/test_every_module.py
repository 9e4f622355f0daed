"""Every module of the core and the adapters can be imported on the Python that runs the tests.

``.ci/matrix`` imports those of the wheels, with the lowest and the newest releases.
"""

from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = {
    "core": (ROOT, "ragmetrics_core"),
    **{
        source.parent.name: (source, "")
        for source in sorted(ROOT.glob("integrations/*/src"))
    },
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_module_can_be_imported(name):
    source, package = SOURCES[name]
    files = sorted((source / package).rglob("*.py"))
    assert files
    for file in files:
        parts = file.relative_to(source).with_suffix("").parts
        import_module(".".join(parts).removesuffix(".__init__"))
