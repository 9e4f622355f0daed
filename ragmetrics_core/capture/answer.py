"""Stage 3: what was answered, which call wrote it, and from which earlier replies. Pure.

The **chain** of an answer is the call that wrote it, and each earlier call whose reply
stands in a prompt of the chain. What any prompt of the chain shows may stand behind the
answer. Example: one call sums up three documents, and the last call is shown this
summary: both are the chain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from ragmetrics_core.capture.calls import (
    FREE_TEXT,
    LABEL,
    NO_ANSWER,
    STRUCTURED,
    AskedTurn,
    Calls,
    FoundAnswer,
    Order,
    Origins,
    end_of,
    messages_of,
    tools_of,
)
from ragmetrics_core.capture.doubts import Doubt
from ragmetrics_core.capture.forms import SHORTEST, letters_of
from ragmetrics_core.capture.plain_values import answer_text, texts_in
from ragmetrics_core.capture.shown import shows
from ragmetrics_core.capture.structures import (
    as_one_line,
    compact,
    find_instances,
    has_no_answer,
    only_asks,
    parse_json,
)
from ragmetrics_core.capture.tree import FLOW, Answer, Node

_GUESSED = (Doubt("answer_guessed", "the framework does not say it"),)
_WRITER_GUESSED = (Doubt("further_call", "no reply of a model equals it"),)
_SHORTEST_JOINED = 8  # letters of a reply that an answer joins with others


def answers(turn: AskedTurn, origins: Origins) -> list[FoundAnswer]:
    """Find the answers of a turn; at least one, perhaps without a text.

    Args:
        turn: The turn.
        origins: What models of the run wrote.
    """
    found = []
    for answer in _answers_found(turn, origins):
        text = answer.text
        if text is not None and (not text.strip() or has_no_answer(parse_json(text))):
            answer = FoundAnswer(replace(answer.answer, text=None), answer.writer)
        answer = _with_chain(turn.calls, origins, answer)
        if _is_part(turn.calls, answer):
            answer = replace(answer, doubts=(*answer.doubts, *_GUESSED))
        found.append(answer)
    return found


def _answers_found(turn: AskedTurn, origins: Origins) -> list[FoundAnswer]:
    """Return the answers by the first way that leads to any."""
    tree, calls = turn.tree, turn.calls
    if "answer" in turn.named:
        text = answer_text(turn.named["answer"])
        # what the framework tells of the same answer stays known
        known = [each for each in tree.answers if text and each.text == text]
        return [_with_writer(turn, [*known, Answer(text)][0])]
    if tree.only_searches:
        return [FoundAnswer(Answer(None))]
    is_broken = turn.error is not None or not (tree.is_complete or tree.answers)
    if is_broken:
        prompted = [call for call in calls.prompted if call.prompt]
        return [FoundAnswer(Answer(None), prompted[-1] if prompted else None)]
    if tree.answers:
        return [_with_writer(turn, answer) for answer in tree.answers]
    in_output = _calls_in_output(calls)
    if in_output:
        informed = _informed(in_output, turn, origins)
        call = informed or _preferred(in_output, turn)
        found = _said_by(calls, call, ())
        is_only_one = len(in_output) == 1 or informed is not None
        doubts = (
            _doubts_of_stated(turn, found.answer, call) if is_only_one else _GUESSED
        )
        return [replace(found, doubts=doubts)]
    if calls.likely_answers:
        likely = calls.likely_answers
        call = _preferred(likely, turn)
        # an empty object gives the user no answer
        has_kind = isinstance(tree.output, (Mapping, list, tuple, str))
        is_only_one = len(likely) == 1 and not (has_kind and not tree.output)
        # a text that the run returned in its place may be the answer
        is_mapping = isinstance(tree.output, Mapping)
        values = tree.output.values() if is_mapping else [tree.output]
        texts = {value for value in values if isinstance(value, str) and value.strip()}
        is_only_one = is_only_one and not texts - {turn.question}
        doubts = _doubts_of_reply(calls, call) if is_only_one else _GUESSED
        return [_said_by(calls, call, doubts)]
    structure = _structure_returned(calls)
    return [structure or FoundAnswer(Answer(None))]


def _said_by(calls: Calls, call: Node, doubts: tuple[Doubt, ...]) -> FoundAnswer:
    """Return what a call replied as the answer."""
    return FoundAnswer(Answer(calls.replies[call].answer), call, doubts=doubts)


def _preferred(among: Sequence[Node], turn: AskedTurn) -> Node:
    """Return the last of some calls; those shown the question go first.

    In a block around one question it is who was shown its reply, and may have put it in
    other words.
    """
    line = as_one_line(turn.question)
    shown_question = [
        call
        for call in among
        if line and any(line in as_one_line(m.text) for m in call.prompt)
    ]
    preferred = (shown_question or among)[-1]
    is_one_block = "question" in turn.named and turn.tree.root.name == FLOW
    for call in among[among.index(preferred) + 1 :] if is_one_block else ():
        if shows(messages_of([call]), turn.calls.replies[preferred].text):
            preferred = call
    return preferred


def _informed(among: Sequence[Node], turn: AskedTurn, origins: Origins) -> Node | None:
    """Return the one of some calls that was shown the question and a passage that was found.

    None without one, where several were, where it may be a grade beside an answer, or
    where another one was shown its reply, and may have put it in other words. Example:
    beside a call that answers, one names the language of the question.
    """
    asked = letters_of(turn.question)
    found = {
        letters_of(document.text)
        for each in origins.lists
        for document in each.documents
    }
    found = {letters for letters in found if len(letters) >= SHORTEST}
    informed = []
    for call in among:
        shown = letters_of("\n".join(messages_of([call])))
        if asked and asked in shown and any(letters in shown for letters in found):
            informed.append(call)
    likeness = turn.calls.answer_likeness
    best = max(likeness[call] for call in among)
    if len(informed) != 1 or likeness[informed[0]] < best:
        return None
    rewriters = [
        call
        for call in among
        if informed[0] in _read_by(turn.calls, call)
        if not turn.calls.replies[call].is_verdict
    ]
    return None if rewriters else informed[0]


def _calls_in_output(calls: Calls) -> list[Node]:
    """List the calls whose text, or structure, is what the run returned."""
    output = calls.tree.output
    lines = {as_one_line(text) for text in texts_in(output)}
    structures = list(_mappings_in(output))
    found = []
    for call, likeness in calls.answer_likeness.items():
        reply = calls.replies[call]
        is_text = bool(reply.text.strip()) and as_one_line(reply.text) in lines
        is_structure = any(value in structures for value in reply.values if value)
        if likeness != NO_ANSWER and (is_text or is_structure):
            found.append(call)
    return found


def _mappings_in(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the mappings in a value, also those inside of others."""
    if isinstance(value, Mapping):
        yield value
        for inner in value.values():
            yield from _mappings_in(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _mappings_in(inner)


def _structure_returned(calls: Calls) -> FoundAnswer | None:
    """Return the mapping that a call wrote, if the run returned just this mapping."""
    output = calls.tree.output
    returned = [output, *output.values()] if isinstance(output, Mapping) else [output]
    for call in reversed(calls.models):
        if call in calls.query_writers:
            continue
        for value in calls.replies[call].values:
            if isinstance(value, Mapping) and value in returned:
                answer = Answer(compact(value))
                return FoundAnswer(answer, call, doubts=_doubts_of_reply(calls, call))
    return None


def _doubts_of_reply(calls: Calls, call: Node) -> tuple[Doubt, ...]:
    """Return a doubt where a reply is a query, a verdict or a plan, and no answer."""
    reply = calls.replies[call]
    is_query = call in calls.query_writers
    is_list_or_grade = calls.answer_likeness[call] <= LABEL and bool(reply.values)
    return _GUESSED if is_query or reply.is_verdict or is_list_or_grade else ()


# Who wrote it


def _with_writer(turn: AskedTurn, answer: Answer) -> FoundAnswer:
    """Return an answer of the framework with the call that wrote it."""
    calls = turn.calls
    if answer.text is None or answer.is_extracted:
        return FoundAnswer(answer)
    writer = answer.writing_call or _writer_by_text(calls, answer)
    if writer is not None:
        doubts = _doubts_of_stated(turn, answer, writer)
        return FoundAnswer(answer, writer, doubts=doubts)
    if not calls.likely_answers:
        return FoundAnswer(answer)
    return FoundAnswer(answer, calls.likely_answers[-1], doubts=_WRITER_GUESSED)


def _writer_by_text(calls: Calls, answer: Answer) -> Node | None:
    """Return the last call whose reply is the answer, has it as a field, or holds it."""
    lines = {as_one_line(text) for text in (answer.text, *answer.replies)} - {""}
    structure = parse_json(answer.text or "")
    latest_first = calls.models[::-1]
    for call in latest_first:
        if as_one_line(calls.replies[call].text) in lines:
            return call
    for call in latest_first:
        reply = calls.replies[call]
        if not lines.isdisjoint(map(as_one_line, reply.texts)):
            return call
        for value in reply.values:
            if not isinstance(value, Mapping) or not isinstance(structure, Mapping):
                if structure is not None and value == structure:
                    return call
                continue
            # {"joke": "…"} became {"joke": "…", "note": null}: a default fills in a field;
            # what holds more than a word or two was written by somebody
            added = {key: structure[key] for key in structure.keys() - value.keys()}
            kept = {key: structure[key] for key in value.keys() & structure.keys()}
            is_short = all(len(letters_of(each)) < SHORTEST for each in texts_in(added))
            if value and kept == value and is_short:
                return call
    return _writer_by_letters(calls, answer.text or "")


def _writer_by_letters(calls: Calls, text: str) -> Node | None:
    """Return the last call whose reply holds the answer, or is held by it.

    A short answer must be an entry of the reply, such as the words behind "Answer:". An
    answer holds replies that make up its half, or all replies that may be an answer, but
    for those that these were written from.
    """
    for call in reversed(calls.models):
        if shows([calls.replies[call].text], text):
            return call
    letters = letters_of(text)
    held = _replies_inside(calls, text)
    held_letters = {letters_of(calls.replies[call].text) for call in held}
    n_held = sum(map(len, held_letters))
    is_half = len(letters) >= SHORTEST and 2 * n_held >= len(letters)
    accounted = list(held)
    for call in accounted:  # the list grows while the loop runs
        accounted += [read for read in _read_by(calls, call) if read not in accounted]
    is_all = set(calls.likely_answers) <= set(accounted)
    return held[-1] if held and (is_half or is_all) else None


def _replies_inside(calls: Calls, answer: str) -> list[Node]:
    """List the calls whose replies stand in an answer that joins them.

    A short one must be an entry, such as "1874" in "Response 1: 1874".
    """
    letters = letters_of(answer)
    held = []
    for call in calls.models:
        reply = calls.replies[call].text
        is_long = len(letters_of(reply)) >= _SHORTEST_JOINED
        is_held = letters_of(reply) in letters if is_long else shows([answer], reply)
        if is_held and call not in calls.query_writers:
            held.append(call)
    return held


def _doubts_of_stated(
    turn: AskedTurn, answer: Answer, writer: Node
) -> tuple[Doubt, ...]:
    """Return what is uncertain about an answer that the framework gives.

    It may be a query, or a verdict on an earlier text.
    """
    calls = turn.calls
    if writer not in calls.replies:
        return ()
    reply = calls.replies[writer]
    has_earlier_text = any(
        call is not writer
        and end_of(call) <= writer.began
        and calls.answer_likeness[call] >= STRUCTURED
        for call in calls.models
    )
    is_list_or_grade = (
        bool(reply.values) and calls.answer_likeness.get(writer, LABEL) <= LABEL
    )
    is_number = reply.text.strip(" .!%").replace(".", "", 1).isdigit()
    is_doubtful = reply.is_verdict or is_list_or_grade or is_number
    is_query = writer in calls.query_writers and letters_of(answer.text) == letters_of(
        reply.text
    )
    is_steering = reply.is_verdict and bool(reply.values)
    # a model that called a tool, and is shown the result, has something to answer from
    has_called = any(message.role == "tool" for message in writer.prompt[-1:])
    has_evidence = has_called or bool(calls.searches)
    # plain functions may have a model judge what was found, and answer elsewhere
    is_by_functions = calls.tree.root.name == FLOW
    may_judge = has_earlier_text or not has_evidence or is_by_functions
    is_judging = is_doubtful and may_judge
    is_judging = is_judging and not turn.calls_it_answer(answer.text)
    is_doubted = is_query or is_steering or is_judging or _is_written_on(calls, writer)
    return _GUESSED if is_doubted else ()


def _is_written_on(calls: Calls, writer: Node) -> bool:
    """Whether a later call read an answer, and the run returned its text as well."""
    text = calls.replies[writer].text
    letters = letters_of(text)
    for call in _calls_in_output(calls):
        later_text = calls.replies[call].text
        later = letters_of(later_text)
        is_text = calls.answer_likeness[call] == FREE_TEXT and later != letters
        # what to ask next is no answer in other words
        is_text = is_text and (not only_asks(later_text) or only_asks(text))
        has_read = shows(messages_of([call]), text)
        if call.began >= end_of(writer) and is_text and has_read:
            return 2 * len(later) >= len(letters)
    return False


def _is_part(calls: Calls, found: FoundAnswer) -> bool:
    """Whether the run returned a longer text that joins the replies of others.

    Nobody was shown it: {"content": a part, "final_report": introduction and content}.
    """
    if found.writer is None:
        return False
    letters = letters_of(found.text)
    for text in texts_in(calls.tree.output):
        whole = letters_of(text)
        if len(whole) <= len(letters):
            continue
        joins_others = any(
            call not in found.chain
            and calls.answer_likeness[call] == FREE_TEXT
            and whole not in calls.replies[call].letters
            for call in _replies_inside(calls, text)
        )
        prompts = messages_of(calls.models) if joins_others else ()
        is_shown = any(whole in letters_of(prompt) for prompt in prompts)
        if joins_others and not is_shown:
            return True
    return False


# What the writer read


def _with_chain(calls: Calls, origins: Origins, found: FoundAnswer) -> FoundAnswer:
    """Return an answer with the calls whose replies its writer read."""
    if found.writer is None:
        return found
    # the calls whose replies an answer joins; none where one reply is all of it
    writer_reply = calls.replies.get(found.writer)
    is_one = writer_reply and letters_of(found.text) in writer_reply.letters
    joined = [] if is_one else _replies_inside(calls, found.text or "")
    chain = {found.writer, *joined}
    # where the later prompts show its reply, beginning with the writer's
    places: dict[Node, tuple[float, ...]] = {}
    perhaps_read: set[Node] = set()
    waiting = list(chain)
    while waiting:
        reader = waiting.pop()
        place_of = _read_by(calls, reader)
        short = [*_perhaps_read_by(calls, reader)]
        read = [*place_of, *_handed_on(calls, reader, short)]
        # the calls inside the engines whose answers a document or a tool hands on
        texts = messages_of([reader])
        for author, text in origins.answers_handed_on:
            if end_of(author) <= reader.began and shows(texts, text):
                read += [inner for inner in author.walk() if inner in calls.models]
        # synthesizers that refine an answer, or build a tree of answers, make several
        # calls for it in the step that was handed the documents
        for around in reversed(calls.paths.get(reader, ())[:-1]):
            has_documents = around.input_documents or around.documents_among_inputs
            if around.kind == "step" and has_documents:
                inside = [call for call in calls.models if around in calls.paths[call]]
                read += [call for call in inside if end_of(call) <= reader.began]
                break
        for call in read:
            if call not in chain:
                chain.add(call)
                places[call] = (*places.get(reader, ()), place_of.get(call, inf))
                waiting.append(call)
        perhaps_read.update(short)
    waiting = list(perhaps_read)
    while waiting:  # what they read, the chain has read as perhaps
        reader = waiting.pop()
        by_reader = {*_read_by(calls, reader), *_perhaps_read_by(calls, reader)}
        waiting += by_reader - perhaps_read - chain
        perhaps_read |= by_reader
    order = Order(calls)

    def place(call: Node) -> tuple[object, ...]:
        return (*places.get(call, ()), inf), order.sort_keys(call)

    shown = set(messages_of(chain))
    # a call beside the chain may be the first that was shown it, such as an agent's step
    texts = messages_of(calls.in_order({*calls.models, *chain}, place))
    return replace(
        found,
        chain=tuple(calls.in_order(chain, place)),
        prompts=tuple(text for text in texts if text in shown),
        perhaps_read=tuple(sorted(perhaps_read - chain, key=lambda call: call.began)),
    )


def _read_by(calls: Calls, reader: Node) -> dict[Node, float]:
    """Find where the prompt of a call shows the replies of earlier calls; inf: somewhere."""
    prompt = [letters_of(message.text) for message in reader.prompt]
    whole = "\n".join(prompt)
    said = {
        letters_of(message.text)
        for message in reader.prompt
        if message.role == "assistant"
    }
    places_of_read: dict[Node, float] = {}
    for call in _earlier(calls, reader):
        texts = calls.replies[call].letters
        long_texts = [text for text in texts if len(text) >= SHORTEST]
        places = [whole.index(text) for text in long_texts if text in whole]
        if places or not said.isdisjoint(texts):
            places_of_read[call] = min(places, default=inf)
    return places_of_read


def _perhaps_read_by(calls: Calls, reader: Node) -> Iterator[Node]:
    """Yield the earlier calls with a short reply that is an entry of a call's prompt.

    A line that was shown before any call replied so, such as "Else say NO_ANSWER.",
    repeats no reply.
    """
    new_lines: dict[str, list[str]] = {}  # by the letters of a reply
    for call in sorted(_earlier(calls, reader), key=end_of):
        reply = calls.replies[call]
        letters = letters_of(reply.answer)
        if reply.is_verdict or not 0 < len(letters) < SHORTEST:
            continue
        if letters not in new_lines:
            known = _lines_shown_to(call)
            lines = _lines_shown_to(reader)
            new_lines[letters] = [line for line in lines if line not in known]
        if shows(new_lines[letters], reply.answer):
            yield call


def _handed_on(calls: Calls, reader: Node, short: Sequence[Node]) -> Iterator[Node]:
    """Yield those of some calls whose short replies a tool handed on to a call.

    The tool around it returned no other text than the reply, and the prompt shows this as
    the result of that tool.
    """
    shown = Counter(each.text for each in reader.prompt if each.role == "tool")
    returned = Counter(node.text for node in calls.nodes if node.kind == "tool")
    for call in short:
        reply = calls.replies[call].answer
        alike = [each for each in short if calls.replies[each].answer == reply]
        for tool in tools_of(calls.paths[call]):
            text = tool.text or ""
            texts = [*find_instances(parse_json(text), str)] or [text]
            is_all = {*map(letters_of, texts)} == {letters_of(reply)}
            is_shown = shown[text] >= returned[tool.text]
            n_inside = sum(tool in calls.paths[each] for each in alike)
            if is_all and is_shown and n_inside == 1:
                yield call
                break


def _lines_shown_to(call: Node) -> dict[str, None]:
    """Return the lines that a call was shown and no model wrote, each once."""
    lines = "\n".join(messages_of([call])).splitlines()
    return dict.fromkeys(line.strip() for line in lines)


def _earlier(calls: Calls, reader: Node) -> Iterator[Node]:
    """Yield the models that had replied before a call, but for those that wrote queries."""
    for call in calls.models:
        is_before = end_of(call) <= reader.began and call is not reader
        if is_before and call not in calls.query_writers:
            yield call
