"""The lanes of the tests: which are fast, and which run only at night; CONTRIBUTING.md explains them.

A test is *fast* unless it stands in a slow folder. A test is *nightly* where its own decorator says so.
"""

from pathlib import Path

from hypothesis import settings

_ROOT = Path(__file__).parents[2]

# Modules that load a framework, start a browser or many processes, or take seconds
# stand in a folder ``slow``; the last two hold tests with dependencies of their own.
_SLOW_FOLDERS = {"integrations", "slow", "encoders", "engines"}

# What no fast test may load: it takes seconds, or starts a browser or a terminal.
SLOW_IMPORTS = frozenset(
    {
        "haystack",
        "haystack_integrations",
        "langchain",
        "langchain_classic",
        "langchain_core",
        "langchain_ragmetrics",
        "langgraph",
        "litellm",
        "llama_index",
        "mlflow",
        "openinference",
        "phoenix",
        "pty",
        "selenium",
        "workflows",
    }
)

# After so many seconds a nightly test counts as one that hangs; the others have those
# in pyproject.toml.
NIGHTLY_SECONDS = 1800

# So many examples of a law are tried where it does not say how many.
LAW_EXAMPLES = 50


def examples(count: int) -> int:
    """How many examples of a law are tried: ``count`` of them, or more where the run chose a deeper profile."""
    return count * settings().max_examples // LAW_EXAMPLES


def is_fast(path: Path) -> bool:
    """Whether a module of tests, or a folder of them, stands in no slow folder."""
    return _SLOW_FOLDERS.isdisjoint(path.relative_to(_ROOT).parent.parts)
