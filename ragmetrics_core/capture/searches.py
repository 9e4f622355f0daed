"""Tools that search, recognised by what other calls of the same tool gave."""

from collections.abc import Iterable

from ragmetrics_core.capture.tree import Node

# an empty list as a tool's text
_EMPTY = frozenset(("", "[]", "()"))


def searching_tools(nodes: Iterable[Node]) -> frozenset[str]:
    """Return the names of the tools that gave documents in some call."""
    tools = [node for node in nodes if node.kind == "tool"]
    return frozenset(tool.name for tool in tools if tool.documents)


def name_empty_searches(root: Node) -> None:
    """Take a tool's empty list for a search that found nothing.

    Example: the tool "lookup" gave two documents in one call, and "[]" in another: the
    second call found nothing. "[]" alone does not say so: a tool that asks a table
    gives this as well.
    """
    nodes = list(root.walk())
    names = searching_tools(nodes)
    for node in nodes:
        is_search = node.kind == "tool" and node.name in names
        gave_a_list = node.documents is None and (node.text or "").strip() in _EMPTY
        if is_search and gave_a_list and node.ended is not None and not node.error:
            node.documents = ()
