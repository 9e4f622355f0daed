"""Evidence that is the text of tools: nobody can tell which of it are contexts, but the user.

Such a text may be a page that was searched for, or the result of a calculation. So it
is evidence for judging an answer, and no list of contexts until the user names
the tool.
"""

from collections.abc import Sequence

from ragmetrics_core.data.sample import Sample


def tools_with_undivided_text(sample: Sample) -> tuple[str, ...]:
    """Return the names of the tools whose texts are all the evidence that a sample has.

    Such a tool, for example "search", returned three passages as one text, which nobody
    divided into contexts.

    Returns:
        The names, each once, in the order of the calls; none for a sample that has
        contexts, or that was not captured.
    """
    notes = sample.capture
    ledger = sample.ledger  # what the calls of the application returned
    if notes is None or ledger is None:
        return ()
    if notes.evidence_from is not None:  # the contexts are known in another way
        return ()
    if sample.context_texts:
        return ()
    names = [
        call.name
        for call in ledger.calls
        if call.kind == "tool" and call.turn == ledger.turn and call.items
    ]
    return tuple(dict.fromkeys(name for name in names if name))


def how_to_name_tools(names: Sequence[str]) -> str:
    """Say which tools returned text, and the setting that makes contexts of it.

    Examples:
        >>> sentence = how_to_name_tools(["search_notes"])
        >>> sentence.partition("; ")[0]
        'tool search_notes returned text without documents'
        >>> sentence.rpartition(" by ")[2].partition(";")[0]
        'context_tools={"search_notes"}'
    """
    listed = ", ".join(names)
    setting = ", ".join(f'"{name}"' for name in names)
    tools = "tool" if len(names) == 1 else "tools"
    return (
        f"{tools} {listed} returned text without documents; if that was searched for,"
        f" make it contexts by context_tools={{{setting}}}; if not, name there the"
        " tools that do search, or context_tools=set() where none does"
    )
