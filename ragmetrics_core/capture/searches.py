"""Tools that search, recognised by what other calls of the same tool gave."""

from collections.abc import Iterable

from ragmetrics_core.capture.tree import Node

# an empty list as a tool's text
_EMPTY = frozenset(("", "[]", "()"))


def searching_tools(nodes: Iterable[Node]) -> frozenset[str]:
    """Names of the tools of which a call gave documents."""
    tools = [node for node in nodes if node.kind == "tool"]
    return frozenset(tool.name for tool in tools if tool.documents)


def name_empty_searches(root: Node) -> None:
    """Take a tool's empty list for a search that found nothing.

    An empty list alone does not say of what it is: a tool that asks a table gives one
    as well. So another call of the same tool must have given documents.
    """
    nodes = list(root.walk())
    names = searching_tools(nodes)
    for node in nodes:
        is_search = node.kind == "tool" and node.name in names
        gave_a_list = node.documents is None and (node.text or "").strip() in _EMPTY
        if is_search and gave_a_list and node.ended is not None and not node.error:
            node.documents = ()
