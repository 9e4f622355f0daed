"""Makes the samples of a run, in five stages. Pure.

Tree ─▶ AskedTurn ─▶ Origins ─▶ FoundAnswer ─▶ FoundEvidence ─▶ Ledger and Sample

1  AskedTurn      ``question``  what was asked, and the calls made for it
2  Origins        ``origins``   what was found, and what models wrote
3  FoundAnswer    ``answer``    what was answered, and from which calls it was written
4  FoundEvidence  ``evidence``  contexts, and the fate of each passage
5  Ledger         below         the searches and tool calls of this and of earlier turns
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from ragmetrics_core.capture.answer import answers
from ragmetrics_core.capture.calls import (
    CUT,
    SEARCHING,
    AskedTurn,
    Brought,
    Calls,
    FoundAnswer,
    FoundEvidence,
    Order,
    Origins,
    tools_of,
)
from ragmetrics_core.capture.citations import cited_by
from ragmetrics_core.capture.divided import answers_beside
from ragmetrics_core.capture.doubts import Doubt
from ragmetrics_core.capture.evidence import EvidenceFinder
from ragmetrics_core.capture.forms import SHORTEST, form_of, letters_of
from ragmetrics_core.capture.origins import OriginsReader
from ragmetrics_core.capture.plain_values import Overrides
from ragmetrics_core.capture.question import turn_of
from ragmetrics_core.capture.shown import KnownTexts, shows
from ragmetrics_core.capture.structures import (
    as_json,
    as_one_line,
    compact,
    find_instances,
    long_lines,
    parse_json,
    query_of_tool,
    texts_of_query,
)
from ragmetrics_core.capture.tree import Document, Node, Tree, check_tree
from ragmetrics_core.data import (
    CaptureNotes,
    Context,
    EvidenceCall,
    Grade,
    Ledger,
    PromptMessage,
    Sample,
)

_NO_OVERRIDES = Overrides()
_GRADES_FROM_BEST: tuple[Grade, ...] = ("exact", "inferred", "incomplete")
_DIGITS = re.compile(r"\d+")
_HANDED_IN = (
    "a request hands documents in, in blocks of their own, that no call brought; they are"
    " not read as evidence"
)
_WRITTEN_INSIDE = "a model inside of the search {} wrote what it returned"
_SEARCHED_AGAIN = (
    "the step {}, which answers from documents that it was given, searched for more, such"
    " as for examples in its prompt"
)
_BROKEN = (
    "the run failed or did not end; mend its error or read its stream to the end, else"
    " its answer stays unjudged"
)
_NO_ANSWER = (
    "the run only searched, or gave none; name the place of an answer by answer_from=, and"
    " what it was written from by contexts_from=, else only the search can be judged"
)
_FAILED = "{} failed; mend that, else there is nothing to judge the answer by"
_NOT_SEARCHED = (
    "if one ran where the framework reports nothing, say contexts_from=;{}{} else the"
    " application did not search, and nothing can be done"
)
_FOUND_EARLIER = (
    " if an earlier turn found what counts, name both turns by conversation=;"
)
_TALK = " if it is mere talk, which is no sample, say context_tools=set();"
_TOOL_TEXT = (
    "{} returned text that no documents hold; of these keep in context_tools={{{}}} those"
    " that search, or say context_tools=set() if none does"
)
_TEXT_OF_A_STEP = (
    "nothing was found, and a text of the run beside that was shown, from which the"
    " answer takes words"
)
_MORE_THAN_FOUND = (
    "{} returned more than the documents that it found, which alone are contexts; name the"
    " contexts by contexts_from="
)


def samples_of(tree: Tree, overrides: Overrides = _NO_OVERRIDES) -> list[Sample]:
    """Make the samples of one run: question, contexts, answer, and how sure they are.

    Example: a chain is invoked with "When did it open?", its retriever finds "Opened in
    1874.", and its model writes "In 1874.". These become one sample.

    Args:
        tree: The run as a tree of its calls.
        overrides: The user's settings on where the question, contexts and answer are.

    Returns:
        A sample for each answer; one without an answer where a run broke off or only
        searched; none for a run that asked and answered nothing.

    Raises:
        SettingError: If the tree holds values of wrong types.
    """
    check_tree(tree)
    turn = turn_of(tree, overrides)
    if turn is None:
        return []
    samples = []
    origins = OriginsReader(turn).origins()
    for found_answer in answers(turn, origins):
        found_evidence = EvidenceFinder(
            turn, origins, found_answer, overrides.contexts_from
        ).evidence()
        table = ledger(turn, origins, found_answer, found_evidence)
        prompt = _prompt(found_answer) if overrides.keep_prompts else None
        samples.append(_sample(turn, found_answer, found_evidence, table, prompt))
    return samples


def _sample(
    turn: AskedTurn,
    found_answer: FoundAnswer,
    found_evidence: FoundEvidence,
    table: Ledger,
    prompt: tuple[PromptMessage, ...] | None,
) -> Sample:
    """Put what the stages found into the sample of one answer."""
    tree = turn.tree
    all_doubts = list(_doubts(turn, found_answer, found_evidence, table))
    named = set(turn.named)
    if not found_evidence.contexts:
        named.discard("contexts")  # a place without any text settles nothing
    # what is in doubt of the named contexts themselves stays
    of_named = found_evidence.doubts if "contexts" in turn.named else ()
    doubts = [
        doubt
        for doubt in all_doubts
        if doubt.settled_by not in named or doubt in of_named
    ]
    # which of the user's places lead nowhere, and what is in doubt, each once
    warnings = dict.fromkeys([*turn.warnings, *(doubt.sentence for doubt in doubts)])
    # why the run may have found texts that the sample lacks
    unread = [
        doubt.sentence
        for doubt in all_doubts
        if doubt.has_unread_texts or doubt.code == "not_recorded"
    ]
    # the replies from which the answer was made, and what was read of a broken one
    replies = [
        turn.calls.replies[call].text
        for call in found_answer.chain
        if call is not found_answer.writer
    ]
    replies.append(tree.partial_answer or "")
    citations, why_unknown = cited_by(turn, found_answer, found_evidence)
    question = turn.question
    if question is None:
        question = found_answer.answer.question
    grades = [doubt.grade for doubt in doubts]
    sample = Sample(
        question=question,
        contexts=found_evidence.contexts,
        retrieved=found_evidence.retrieved,
        answer=found_answer.text,
        standalone_question=turn.standalone_question,
        history=tree.history,
        generator=found_answer.model,
        error=turn.error,
        **tree.given_fields,
        capture=CaptureNotes(
            grade=max(grades, key=_GRADES_FROM_BEST.index, default="exact"),
            evidence_from=found_evidence.evidence_from,
            # of several doubts of one code the first is told
            doubts={doubt.code: doubt.sentence for doubt in reversed(doubts)},
            warnings=tuple(warnings),
            intermediate=tuple(
                Context(text=text) for text in dict.fromkeys(replies) if text.strip()
            ),
            other=tuple(document.context() for document in tree.documents_without_text),
            complete=tree.is_complete and not turn.error,
            citations_unknown=why_unknown or None,
            unread_texts=tuple(dict.fromkeys(unread)),
            passages=found_evidence.passages,
            prompt=prompt,
        ),
        ledger=table,
    )
    # a sample stores the answer " " as None, and half a character as "�"
    is_stored_otherwise = sample.answer != found_answer.text
    if citations is None or is_stored_otherwise or sample.citations:
        return sample
    return sample.model_copy(update={"citations": citations})


def _prompt(found_answer: FoundAnswer) -> tuple[PromptMessage, ...] | None:
    """Return the prompt that an answer was written from; None if none was recorded.

    A call of a tool stands in it in words, such as ``search({"query": "ferry"})``.
    """
    if found_answer.writer is None or not found_answer.writer.prompt:
        return None
    messages = []
    for message in found_answer.writer.prompt:
        lines = [message.text] if message.text else []
        for call in message.tool_calls:
            lines.append(f"{call.name}({compact(call.arguments)})")
        messages.append(PromptMessage(role=message.role, content="\n".join(lines)))
    return tuple(messages)


def _doubts(
    turn: AskedTurn,
    found_answer: FoundAnswer,
    found_evidence: FoundEvidence,
    table: Ledger,
) -> Iterator[Doubt]:
    """Yield all that is uncertain about a sample."""
    tree = turn.tree
    yield from turn.doubts
    yield from tree.doubts
    yield from found_answer.doubts
    yield from found_evidence.doubts
    doubts_of_calls = list(_doubts_of_calls(turn.calls))
    yield from doubts_of_calls
    is_unrecorded = any(doubt.code == "not_recorded" for doubt in doubts_of_calls)
    if found_evidence.contexts == () and _takes_other_text(turn, found_answer):
        yield Doubt("by_data_flow", _TEXT_OF_A_STEP, has_unread_texts=True)
    # what the answer rests on: calls of this turn, and earlier ones that it was shown
    rests_on = [
        call
        for call in table.calls
        if call.items and call.kind != "written"
        if call.shown or call.turn == table.turn
    ]
    tools_read = [call for call in rests_on if call.kind == "tool"]
    if len(tools_read) < len(rests_on):
        # beside documents, what a tool of an earlier turn returned decides nothing
        tools_read = [call for call in tools_read if call.turn == table.turn]
    of_tools = list(_doubts_of_tools(turn, found_answer, found_evidence, tools_read))
    yield from of_tools
    yield from _doubts_of_answers_found(turn.calls, found_answer, found_evidence)
    if turn.error or not tree.is_complete:
        yield Doubt("no_answer", _BROKEN)
    elif found_answer.text is None:
        yield Doubt("no_answer", _NO_ANSWER)
    is_known = found_evidence.contexts is not None or is_unrecorded
    if not (is_known or of_tools or rests_on):
        nodes = turn.calls.nodes
        tools = [each for each in nodes if each.kind == "tool" and not each.is_control]
        failed = [call.name for call in (*turn.calls.searches, *tools) if call.error]
        is_by_itself = tree.conversation_id is None
        # it would be no sample if the user said that no tool searches
        says_none = Overrides(context_tools=set())
        is_said = turn.calls.context_tools is not None or bool(turn.named)
        may_be_talk = not is_said and turn_of(tree, says_none) is None
        words = _NOT_SEARCHED.format(
            _TALK if may_be_talk else "", _FOUND_EARLIER if is_by_itself else ""
        )
        yield Doubt("no_search", _FAILED.format(failed[0]) if failed else words)


def _doubts_of_calls(calls: Calls) -> Iterator[Doubt]:
    """Yield what was not recorded of single calls."""
    if calls.tree.n_without_text:
        yield Doubt("not_recorded", f"of {calls.tree.n_without_text} documents")
    handed_in: list[str] = []
    for node in calls.nodes:
        has_no_end = node.ended is None and node.error is None
        if node.kind == "retriever" and has_no_end:
            yield Doubt("not_recorded", f"of the search {node.name}, which did not end")
        for words in node.evidence_not_recorded:
            yield Doubt("not_recorded", words)
        for words in node.remarks:
            yield Doubt("by_data_flow", words, has_unread_texts=True)
        handed_in += map(letters_of, node.texts_handed_in)
        if node.kind in SEARCHING and any(
            _is_written_inside(document, node) for document in node.documents or ()
        ):
            yield Doubt("by_data_flow", _WRITTEN_INSIDE.format(node.name))
        is_answering = node.kind == "step" and node.query and node.input_documents
        if is_answering and any(inner.kind == "retriever" for inner in node.walk()):
            yield Doubt("by_data_flow", _SEARCHED_AGAIN.format(node.name))
    if handed_in:
        brought = [node.text for node in calls.nodes]
        for node in calls.nodes:
            documents = (*(node.documents or ()), *node.input_documents)
            brought += [document.text for document in documents]
        known = "\n".join(map(letters_of, brought))
        if not all(letters in known for letters in handed_in):
            yield Doubt("by_data_flow", _HANDED_IN, has_unread_texts=True)


def _is_written_inside(document: Document, search: Node) -> bool:
    """Whether half of a document is a reply of a model inside the search that returned it.

    A model that cuts passages out repeats lines that it was shown.
    """
    letters = letters_of(document.text)
    for model in search.walk():
        for reply in (model.reply, *model.other_replies):
            text = reply.text if reply is not None else ""
            own = letters_of(text)
            if own and own in letters and 2 * len(own) >= len(letters):
                messages = [message.content for message in model.prompt]
                shown = letters_of("\n".join(messages))
                return not all(letters_of(line) in shown for line in text.splitlines())
    return False


def _doubts_of_tools(
    turn: AskedTurn,
    found_answer: FoundAnswer,
    found_evidence: FoundEvidence,
    tools_read: Sequence[EvidenceCall],
) -> Iterator[Doubt]:
    """Yield a doubt where the user has to say which tools search.

    Such a tool returned a text, which nobody divided. Beside contexts, only a text that
    the answer was shown counts, which tells more than what was found, and none of a word
    or two: "4.4 pounds" is a value. What a tool that searched in vain says of that counts
    where the answer was made of it. Where the user has said which search, only what these
    return around documents is in doubt.
    """
    calls = turn.calls
    are_named = calls.context_tools is not None
    names: dict[str, None] = {}
    for node in () if are_named else calls.nodes:
        if calls.says_it_found_nothing(node) and _takes(
            found_answer.text or "", node.text or "", turn.question or ""
        ):
            names[node.name] = None
    contexts = [Document(each.text) for each in found_evidence.contexts or ()]
    searches = [each for each in found_evidence.brought if each.kind == "retrieval"]
    documents = [document for each in searches for document in each.documents]
    found = [letters for each in documents if (letters := letters_of(each.text))]
    known = [*documents, *contexts]
    for call in tools_read:
        if are_named and call.name not in calls.named_to_search:
            continue
        text = call.items[0].text
        if are_named and not any(each in letters_of(text) for each in found):
            continue
        shows_documents = bool(known) and presents_documents(text, call.query, [known])
        is_value = len(letters_of(text)) < SHORTEST
        is_left_out = is_value or shows_documents or not call.shown
        if found_evidence.contexts is None or not is_left_out:
            names[call.name or "?"] = None
    if names:
        setting = ", ".join(f'"{name}"' for name in names)
        words = _MORE_THAN_FOUND if are_named else _TOOL_TEXT
        words = words.format(", ".join(names), setting)
        yield Doubt("undivided", words, has_unread_texts=True)


def _takes_other_text(turn: AskedTurn, found_answer: FoundAnswer) -> bool:
    """Whether an answer was made of a text that a step of the run gave, and no model wrote.

    Example: a search found nothing, and a reader of web pages gave a text, which a prompt
    holds among others. What the caller handed in is no step's.
    """
    tree, question = turn.tree, turn.question or ""
    if not found_answer.prompts:
        return False
    given, returned = (
        {*find_instances([*map(tree.to_plain_value, each)], str)}
        for each in (tree.lookup_inputs, tree.lookup_outputs)
    )
    known = {letters_of(text) for text in (*found_answer.prompts, question)}
    known |= {letters_of(node.query) for node in turn.calls.nodes}
    for reply in turn.calls.replies.values():
        known |= reply.letters
    return any(
        len(letters_of(text)) >= SHORTEST
        and letters_of(text) not in known
        and shows(found_answer.prompts, text)
        and _takes(found_answer.text or "", text, question)
        for text in returned - given
    )


def _doubts_of_answers_found(
    calls: Calls, found_answer: FoundAnswer, found_evidence: FoundEvidence
) -> Iterator[Doubt]:
    """Yield a doubt where a search wrote an answer, and the model was shown this beside documents.

    What a model inside of it wrote is read as that model's reply.
    """
    contexts = [each.text for each in found_evidence.contexts or ()]
    for node in calls.nodes:
        if node.kind not in ("tool", "retriever") or node.error:
            continue
        inside = [each.reply.text for each in node.walk() if each.reply]
        for text in answers_beside(node.text or "", node.result):
            is_known = shows([*contexts, *inside], text)
            if not is_known and shows(found_answer.prompts, text):
                words = _MORE_THAN_FOUND.format(node.name)
                yield Doubt("undivided", words, has_unread_texts=True)


def _takes(answer: str, text: str, question: str) -> bool:
    """Whether an answer repeats a number or some words of a text that the question lacks."""
    numbers = [set(_DIGITS.findall(each)) for each in (answer, text)]
    if set.intersection(*numbers).difference(_DIGITS.findall(question)):
        return True
    letters, known, asked = map(letters_of, (answer, text, question))
    last = max(0, len(letters) - SHORTEST)
    runs = (letters[at : at + SHORTEST] for at in range(last + 1))
    return any(run and run in known and run not in asked for run in runs)


# Stage 5: the ledger of one answer, each call that brought evidence, in order

_SHOWN_BEGINNING = 100  # letters of a tool's text that tell that it was shown
_PIECE = 24  # letters of it that are a document's


def ledger(
    turn: AskedTurn,
    origins: Origins,
    found_answer: FoundAnswer,
    found_evidence: FoundEvidence,
) -> Ledger:
    """List the searches and tool calls of a conversation up to this answer.

    Example: in turn 1 a search found A, in turn 2 another found B and C, and the prompt
    of turn 2 shows A and C: two calls, with the indexes shown (0,) and (1,).

    Args:
        turn: The question, and the calls that were made for it.
        origins: What was found.
        found_answer: The answer.
        found_evidence: What the calls brought, and what the answer was shown of it.
    """
    tree = turn.tree
    n_user_turns = sum(said.role == "user" for said in tree.history)
    n_turns = max([n_user_turns, *(call.turn for call in tree.earlier_calls)])
    number = tree.turn_number or 1 + n_turns
    order = Order(turn.calls)
    places_shown = partial(_places_shown, found_answer, found_evidence)
    calls: list[EvidenceCall] = []
    # what a tool's reply was written from counts again where all its replies are shown
    is_reply_shown: dict[tuple[object, ...], bool] = {}
    for earlier in tree.earlier_calls:
        key = (earlier.turn, earlier.step, earlier.agent, earlier.name)
        if earlier.kind == "written" and earlier.name is not None:
            is_shown = bool(places_shown(earlier.items))
            is_reply_shown[key] = is_shown and is_reply_shown.get(key, True)
    for earlier in tree.earlier_calls:
        key = (earlier.turn, earlier.step, earlier.agent, earlier.name)
        shown = places_shown(earlier.items)
        if not shown and earlier.kind == "retrieval" and is_reply_shown.get(key):
            shown = earlier.shown
        calls.append(earlier.model_copy(update={"shown": shown}))
    texts = [
        replace(each, shown=places_shown(each.documents))
        for each in _texts_brought(turn.calls, origins, found_answer, found_evidence)
    ]
    brought = [*texts, *found_evidence.brought]
    # what a call made of what was found inside it stands after that
    brought.sort(
        key=lambda each: order.sort_keys(
            [*each.call.walk()][-1] if each.is_made_of_others else each.call
        )
    )
    # what a tool that searched in vain brought from elsewhere stands for these searches
    told = {each.call for each in brought if each.documents}
    told = {call for call in told if turn.calls.searched_in_vain(call)}
    answer = letters_of(found_answer.text)
    for each in brought:
        is_told = not told.isdisjoint(turn.calls.paths[each.call])
        if is_told and each.kind == "retrieval" and not each.documents:
            continue
        is_answer = each.kind == "written" and any(
            letters_of(document.text) == answer for document in each.documents
        )
        # what counts only if it was shown
        is_left_out = each.shown == () if each.is_of_unknown_origin else is_answer
        if is_left_out and not each.shown:
            continue
        call = each.call
        # the name of a tool around it stands for a call
        tools = tools_of(turn.calls.paths[call])
        name = tools[-1].name if tools else None
        query = call.query
        if query is None and call.arguments:
            query = query_of_tool(call.arguments)
        is_asked = each.kind != "given" and call.kind not in ("model", "reranker")
        entry = EvidenceCall(
            kind=each.kind,
            turn=number,
            step=order.step_of(call),
            name=call.name if call.by_provider else name or None,
            query=query if is_asked else None,
            items=tuple(document.context() for document in each.documents),
            shown=each.shown,
            agent=order.agent_of(call),
            error=each.error,
        )
        calls.append(entry)
    return Ledger(conversation=tree.conversation_id, turn=number, calls=tuple(calls))


def _places_shown(
    found_answer: FoundAnswer,
    found_evidence: FoundEvidence,
    texts: Sequence[Context | Document],
) -> tuple[int, ...] | None:
    """Return the places of the texts that stand in the prompts; None without prompts."""
    if not texts:
        return ()
    if not found_answer.chain:
        return None
    context_letters = [letters_of(each.text) for each in found_evidence.contexts or ()]
    return tuple(
        place
        for place, each in enumerate(texts)
        if _is_shown(each.text, found_answer.prompts, context_letters)
    )


def _is_shown(
    text: str, prompts: Sequence[str], context_letters: Sequence[str]
) -> bool:
    """Whether prompts show a text, or some of it.

    They show a text that holds one of the contexts. Of any other they hold a short text
    whole, or a long beginning of one of its parts: JSON and cut texts have several.
    """
    letters = letters_of(text)
    if any(len(each) >= SHORTEST and each in letters for each in context_letters):
        return True
    if len(letters) < SHORTEST:
        return shows(prompts, text)
    parts = map(letters_of, (*text.split(CUT), *find_instances(parse_json(text), str)))
    beginnings = {part[:_SHOWN_BEGINNING] for part in parts if len(part) >= SHORTEST}
    shown = [letters_of(prompt) for prompt in prompts]
    return any(beginning in each for beginning in beginnings for each in shown)


# The texts that tools and models brought


def _texts_brought(
    calls: Calls,
    origins: Origins,
    found_answer: FoundAnswer,
    found_evidence: FoundEvidence,
) -> list[Brought]:
    """List the texts of tools, summaries, and what sub-agents wrote and no tool handed on.

    A tool whose text became documents arrived with these, but where the answer was shown
    all of its text; what a tool inside a retriever found, the retriever returned.
    """
    brought: list[Brought] = []
    texts_of_tools: set[str] = set()
    found = {each.call: each.documents for each in found_evidence.brought}
    told = set(calls.named_tools)
    for node in calls.nodes:
        if node.kind != "tool" or node.is_control:
            continue
        if calls.is_in_search(node):
            continue
        documents = found.get(node, ()) if node in calls.text_tools else ()
        if documents:
            told.add(node)
            if not shows(found_answer.prompts, node.text or ""):
                continue
        if calls.is_handed_on(node, told):
            continue
        each = _result_of_tool(node, calls, origins, documents)
        if each is not None:
            brought.append(each)
            told.add(node)
            texts_of_tools |= {as_one_line(text.text) for text in each.documents}
        texts_of_tools.add(as_one_line(node.text))
    answer = as_one_line(found_answer.text)
    # summaries of earlier messages, each with the call that was first shown it; what an
    # earlier turn was shown already is a call of that turn
    summaries: dict[str, Node] = {}
    known = {item.text for call in calls.tree.earlier_calls for item in call.items}
    for call in calls.prompted:
        for message in call.prompt:
            if message.role == "summary" and message.text not in known:
                summaries.setdefault(message.text, call)
    for summary, call in summaries.items():
        brought.append(Brought("written", call, (Document(summary),)))
    for node in calls.nodes[1:]:
        if node.kind == "agent" and node.text and node.text.strip():
            line = as_one_line(node.text)
            is_handed_on = any(line in text for text in texts_of_tools)
            if not is_handed_on and line != answer:
                brought.append(Brought("written", node, (Document(node.text),)))
    return brought


def _result_of_tool(
    tool: Node, calls: Calls, origins: Origins, made: tuple[Document, ...]
) -> Brought | None:
    """Return what a tool brought beside documents, or its error; None if its text only presents these.

    Args:
        tool: The tool.
        calls: The calls of the run.
        origins: What was found.
        made: Documents that a step made of its text.
    """
    if tool.error:
        searches = [node for node in tool.walk() if node.kind == "retriever"]
        if any(search.error for search in searches):
            return None  # a search inside tells it
        is_search = bool(searches) or tool.name in calls.named_to_search
        has_model = any(inner.kind == "model" for inner in tool.walk())
        is_retrieval = is_search and not has_model
        return Brought("retrieval" if is_retrieval else "tool", tool, error=tool.error)
    if tool.ended is None or calls.says_it_found_nothing(tool):
        return None
    if tool not in origins.texts_of_tools:
        has_documents = any(inner.documents is not None for inner in tool.walk())
        return None if has_documents else Brought("tool", tool)
    kind, text = origins.texts_of_tools[tool]
    lists = [inner.documents for inner in tool.walk() if inner.documents is not None]
    named = [each for each in origins.lists if each.call in calls.named_tools]
    lists += [each.documents for each in named if tool in calls.paths[each.call]]
    lists += [made] if made else []
    if kind == "tool" and presents_documents(text, tool.query, lists):
        return None
    return Brought(kind, tool, (Document(text),))


def presents_documents(
    text: str, query: str | None, lists: Sequence[Sequence[Document]]
) -> bool:
    """Whether a tool's text shows documents, and tells no more.

    What is left without them came from elsewhere: a long line, or in JSON some words.

    Args:
        text: The text.
        query: What the tool was asked, which it may repeat.
        lists: Lists of documents, as searches returned them.
    """
    text = as_json(text)
    is_json = parse_json(text) is not None
    letters = letters_of(text)
    documents = list(chain.from_iterable(lists))
    forms = [letters_of(form) for each in documents for form in each.texts]
    # a part of a document, or the beginning of one
    if all(lists) and not any(
        letters in form or form[:_SHOWN_BEGINNING] in letters for form in forms if form
    ):
        return False
    known = texts_of_query(query)
    for document in documents:
        known += [*document.texts, document.id or ""]
        known += find_instances(document.metadata, str)
        if not is_json:  # of which several fields at once would leave none
            known.append(str(dict(document.metadata)))
    form = form_of(text)
    rest = text
    for start, end in KnownTexts(known).places_in(text):
        first, last = form.place_in_source(start, end)
        rest = f"{rest[:first]}{' ' * (last - first)}{rest[last:]}"
    in_rest = parse_json(rest)
    values = [each.strip() for each in _texts_of_structure(in_rest)]
    words = {letters_of(each) for each in values if " " in each and "\n" not in each}
    words -= {each for each in words if any(each in letters_of(it) for it in known)}
    if in_rest is None:  # names of an object's fields are no words
        rest = re.sub(r"[=\[\](){}]", "\n", rest)
    return not long_lines(rest, _PIECE) and len("".join(words)) < _PIECE


def _texts_of_structure(value: object) -> Iterator[str]:
    """Yield the texts in a structure; of one that is JSON itself, such as a block's, those in it."""
    for text in find_instances(value, str):
        inside = parse_json(text)
        if inside is None:
            yield text
        else:
            yield from _texts_of_structure(inside)
