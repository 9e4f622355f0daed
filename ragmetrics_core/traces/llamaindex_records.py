"""What went into the calls of one trace of LlamaIndex and came out."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from ragmetrics_core.traces.llamaindex_methods import method_of
from ragmetrics_core.traces.llamaindex_values import has_any
from ragmetrics_core.traces.span_calls import Call
from ragmetrics_core.traces.values import mapping, parse_objects


class Records:
    """What went into the calls of one trace and came out, and their methods.

    Example: ``engine.query("Who?")`` returned "Anna": the input "Who?", the output
    "Anna", the method "query". A call without a reading has no entry.

    Attributes:
        inputs: What each call was given, parsed.
        outputs: What each call returned, parsed.
        methods: The method of each call, such as "retrieve"; "" if nothing tells it.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        """Parse what the calls of a trace were given and returned.

        Args:
            calls: All calls of the trace that say something.
        """
        self.inputs: dict[Call, Any] = {}
        self.outputs: dict[Call, Any] = {}
        self._parse_inputs_and_outputs(calls)
        self.methods: dict[Call, str] = {}
        for call, inputs in self.inputs.items():
            self.methods[call] = method_of(call, inputs, self.outputs[call])

    def _parse_inputs_and_outputs(self, calls: Sequence[Call]) -> None:
        """Parse what went into each call and came out, into ``inputs`` and ``outputs``."""
        for call in calls:
            if call.reading is None:
                continue
            inputs = call.reading.input
            output = call.reading.output
            # a step of a workflow is given an event as "ev", and returns objects of any
            # class; the workflow itself is given its "init_state"
            is_workflow = has_any(inputs, "ev", "init_state")
            self.inputs[call] = parse_objects(inputs)
            self.outputs[call] = parse_objects(output, any_object=is_workflow)
        for call in calls:
            for step, following in pairwise(call.inside):
                self._fill_missing_output(step, following)

    def _fill_missing_output(self, step: Call, following: Call) -> None:
        """Take the output of an agent's step from the next one, to which it was sent."""
        parses_reply = following.span.name.endswith(".parse_agent_output")
        if parses_reply and step in self.outputs and not self.outputs[step]:
            self.outputs[step] = self.event_sent_to(following)

    def event_sent_to(self, call: Call) -> Mapping[str, Any]:
        """What a step of a workflow was sent."""
        return mapping(mapping(self.inputs.get(call)).get("ev"))

    def chunks_given(self, call: Call) -> tuple[str, ...]:
        """The texts that a synthesizer was given."""
        chunks = mapping(self.inputs.get(call)).get("text_chunks")
        return tuple(chunk for chunk in chunks or () if isinstance(chunk, str))

    def first_chunks_given(self, synthesizer: Call) -> tuple[str, ...]:
        """Return the texts of a synthesizer, or of the first call inside that has any."""
        for call in synthesizer.walk():
            chunks = self.chunks_given(call)
            if chunks:
                return chunks
        return ()
