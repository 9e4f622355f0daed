"""Which calls ran beside each other: they overlap, or a chain of overlapping calls joins them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragmetrics_core.capture.calls import end_of
from ragmetrics_core.capture.tree import Node, Path


def _joined_by_overlaps(call: Node, siblings: Iterable[Node]) -> set[Node]:
    """A call with all siblings that overlap it, those that overlap one of these, and so on."""
    joined = {call}
    while True:
        further = {
            other
            for other in siblings
            if any(
                one.began < end_of(other) and other.began < end_of(one)
                for one in joined
            )
        }
        if further <= joined:
            return joined
        joined |= further


def are_beside(first: Path, second: Path, counted: Sequence[Path]) -> bool:
    """Whether two calls, given by their paths, stand in branches that ran beside each other.

    Only branches on the paths of ``counted`` may stand in the chain that joins them.
    """
    for depth, (one, other) in enumerate(zip(first, second, strict=False)):
        if one is not other:
            siblings = {
                path[depth]
                for path in counted
                if path[:depth] == first[:depth] and len(path) > depth
            }
            return other in _joined_by_overlaps(one, siblings)
    return True  # one call stands inside the other
