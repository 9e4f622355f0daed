"""The nodes (documents) of one trace of LlamaIndex, with the texts that models are shown of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from ragmetrics_core.capture import Document
from ragmetrics_core.capture.plain_values import find_instances
from ragmetrics_core.traces.llamaindex_records import Records
from ragmetrics_core.traces.span_calls import Call
from ragmetrics_core.traces.values import mapping


class ShownNodes:
    """The nodes of one trace, with the texts that models are shown of them.

    A **node** is a document of LlamaIndex; some spans cut it to its id. **Chunks** are
    the texts, metadata included, that a synthesizer was given. A **synthesizer** answers
    a question from nodes.

    Args:
        calls: All calls of the trace that say something.
        records: What they were given and returned.
    """

    def __init__(self, calls: Sequence[Call], records: Records) -> None:
        """Collect the nodes of the trace by their ids, and the chunks."""
        self._records = records
        nodes = self._all_nodes(calls)
        # read backwards: of several nodes with the same id the first stays
        self._nodes_by_id = {node.id: node for node in reversed(nodes) if node.text}
        # by id and text alone, since another span may lack a node's metadata
        self._nodes_with_metadata = _nodes_with_metadata(nodes)
        # texts that synthesizers were given
        chunks = chain.from_iterable(records.chunks_given(call) for call in calls)
        self._chunks_shortest_first = sorted(chunks, key=len)

    def nodes_in(self, value: Any) -> tuple[Document, ...]:
        """The nodes in a value, with the texts that models are shown of them."""
        return tuple(map(self._as_shown, find_instances(value, Document)))

    def nodes_given_to(
        self, synthesizer: Call, sources: tuple[Document, ...]
    ) -> tuple[Document, ...]:
        """The nodes from which a synthesizer answers; empty if it shows its model none."""
        if synthesizer.span.name.startswith("Generation."):
            return ()
        nodes = self.nodes_in(mapping(self._records.inputs[synthesizer]).get("nodes"))
        return nodes or self._nodes_of_texts_given(synthesizer, sources)

    def _nodes_of_texts_given(
        self, synthesizer: Call, sources: tuple[Document, ...]
    ) -> tuple[Document, ...]:
        """Return the nodes (documents) whose texts a synthesizer was given.

        The span of the synthesizer holds the texts without ids. Example: the text
        "Rome is old." and a source with the id "n1" and this text give the node "n1".

        Args:
            synthesizer: The call.
            sources: The nodes that the engine around it returned as its sources. They
                are likely the nodes of the texts, in the same order.

        Returns:
            A node for each text; the sources if no text was recorded.
        """
        texts = self._records.first_chunks_given(synthesizer)
        if not texts:
            return sources
        if len(texts) > len(sources):
            # a source is missing: the first text may not be that of the first source
            return tuple(Document(text) for text in texts)
        nodes_by_text = self._shown_nodes_by_text()
        return tuple(
            _node_of_text(text, source, nodes_by_text)
            # fewer texts than sources: the synthesizer was given the first sources
            for text, source in zip(texts, sources, strict=False)
        )

    def _shown_nodes_by_text(self) -> dict[str, Document]:
        """The nodes of the trace by the texts that models are shown of them."""
        nodes_by_text = {}
        for node in self._nodes_by_id.values():
            shown_node = self._as_shown(node)
            nodes_by_text[shown_node.text] = shown_node
        return nodes_by_text

    def _as_shown(self, node: Document) -> Document:
        """Return a node (a document) with the text that models are shown of it.

        That is its metadata, followed by its own text: "page: 3", a blank line, "Rome
        is old.". If this node lacks its text or its metadata, they are taken from the
        same node in another span of the trace.
        """
        whole_node = node if node.text else self._nodes_by_id.get(node.id, node)
        shown_node = self._nodes_with_metadata.get(
            (whole_node.id, whole_node.text), whole_node
        )
        shown_node = replace(shown_node, score=node.score)
        # ``forms`` holds the own text of a node that was recorded with its metadata
        was_recorded_as_shown = bool(shown_node.forms)
        metadata = _metadata_without_score(whole_node, node.score)
        if was_recorded_as_shown or not metadata or not shown_node.text:
            return shown_node
        return self._with_metadata_in_text(shown_node, metadata)

    def _with_metadata_in_text(
        self, node: Document, metadata: Mapping[str, str]
    ) -> Document:
        """Put metadata before a node's text; the text alone becomes another form."""
        lines = "\n".join(self._metadata_lines(node.text, metadata))
        return Document(
            text=f"{lines}\n\n{node.text}",
            id=node.id,
            score=node.score,
            metadata=node.metadata,
            forms=(node.text,),
        )

    def _metadata_lines(self, text: str, metadata: Mapping[str, str]) -> list[str]:
        """The lines of metadata before a node's text.

        The shortest chunk that fits tells them; without one they are all metadata.
        """
        end = f"\n\n{text}"
        for chunk in self._chunks_shortest_first:
            if chunk.endswith(end):
                lines = chunk.removesuffix(end).splitlines()
                if all(_holds_any(line, metadata.values()) for line in lines):
                    return lines
        return [f"{name}: {value}" for name, value in metadata.items()]

    def _all_nodes(self, calls: Sequence[Call]) -> list[Document]:
        """All nodes of the trace, in the order of the calls.

        For each call, the nodes that came out stand before the nodes that went in.
        """
        nodes: list[Document] = []
        for call in calls:
            documents = call.reading.documents if call.reading is not None else None
            values = (
                documents,
                self._records.outputs[call],
                self._records.inputs[call],
            )
            nodes += find_instances(values, Document)
        return nodes


def _nodes_with_metadata(
    nodes: Iterable[Document],
) -> dict[tuple[str | None, str], Document]:
    """The nodes that were recorded with their metadata before their text.

    Other spans may have recorded such a node with its text alone: the keys are the id
    and the text alone, which is its first other form.
    """
    nodes_with_metadata = {}
    for node in nodes:
        if node.forms:
            text_alone = node.forms[0]
            nodes_with_metadata[node.id, text_alone] = node
    return nodes_with_metadata


def _node_of_text(
    text: str, source: Document, nodes_by_text: Mapping[str, Document]
) -> Document:
    """Return the node of a text that a synthesizer was given.

    Args:
        text: The text.
        source: The node that is likely the one. It is not if its own text does not
            stand in the text; nor if it has no text and another node has this one.
        nodes_by_text: The known nodes by the texts that models are shown of them.
    """
    own_text = source.forms[0] if source.forms else source.text
    if own_text:
        is_of_source = own_text in text
    else:
        is_of_source = text not in nodes_by_text
    if is_of_source:
        return replace(source, text=text)
    return nodes_by_text.get(text, Document(text))


def _holds_any(line: str, values: Iterable[str]) -> bool:
    """Whether one of some texts stands in a line."""
    return any(value in line for value in values)


def _metadata_without_score(node: Document, score: float | None) -> dict[str, str]:
    """A node's metadata; some instrumentations write its score among them."""
    metadata = {}
    for name, value in node.metadata.items():
        is_score = name == "score" and value == score
        if not is_score:
            metadata[name] = str(value)
    return metadata
