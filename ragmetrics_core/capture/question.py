"""Stage 1: what was asked, what was said before, and whether the run is a turn at all. Pure.

Example: a chain is invoked with "And the ferry?", and its retriever is asked "When does
the ferry run?". The first text is the question, the second the standalone question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

from ragmetrics_core.capture.calls import NO_ANSWER, AskedTurn, Calls, messages_of
from ragmetrics_core.capture.divided import divided
from ragmetrics_core.capture.doubts import CAPTURE_EARLIER, SEVERAL_RESULTS, Doubt
from ragmetrics_core.capture.forms import letters_of
from ragmetrics_core.capture.history import history_of_prompts, read_history
from ragmetrics_core.capture.plain_values import (
    ASSISTANTS,
    QUESTION_KEYS,
    USERS,
    Overrides,
    answer_in,
    answer_text,
    documents_in,
    name_of,
    names_a_history,
    question_in,
)
from ragmetrics_core.capture.shown import shows
from ragmetrics_core.capture.structures import (
    ENDS_OF_QUESTION,
    as_one_line,
    find_instances,
    lines_without_labels,
    only_asks,
    parse_json,
)
from ragmetrics_core.capture.tree import FLOW, Node, Tree, last_words_of_user
from ragmetrics_core.data import SettingError
from ragmetrics_core.data.replies import takes_words

# of an input that holds a question
_USUAL_NAMES = (*QUESTION_KEYS, "user_query", "text")
_LONGEST_QUERY = 200  # a longer text is a passage that may stand in an answer
_GUESSED = (Doubt("question_guessed"),)
_UNREAD = (
    Doubt(
        "history_unread",
        "words under a name such as messages or history, or in the template of one run,"
        " are not read; hand in each turn as a message of user or assistant under"
        " chat_history, what is no talk under another name, and a template where its"
        " builder is made",
    ),
)
_LABELLED = (
    Doubt(
        "history_unread",
        "two names take turns before the lines of an input, as speakers do; hand in each"
        " turn as a message of user or assistant under chat_history, and what is no talk as"
        " a mapping",
    ),
)
_SHOWN = (
    Doubt("history_unread", f"earlier turns stand in a prompt; {CAPTURE_EARLIER}"),
)
_UNANSWERED = (
    Doubt(
        "history_unread",
        f"an earlier question has no reply that is read; {CAPTURE_EARLIER}",
    ),
)
_WHOLE_PROMPTS = (
    Doubt(
        "history_unread",
        "the history holds prompts with their documents; keep the user's own words in it",
    ),
)
# what is in doubt where a function of the user raises
_CODES_OF_PLACES = {
    "question": "question_guessed",
    "answer": "answer_guessed",
    "contexts": "by_data_flow",
}
# who speaks: at the head of a line, or in a list of roles or messages
_MESSAGES = ("HumanMessage(", "AIMessage(")
_USER = re.compile(
    rf"^\W{{0,3}}(?:{'|'.join(sorted(USERS))})\W{{0,3}}:"
    r"|[\"'](?:human|user)[\"':]",
    re.MULTILINE | re.IGNORECASE,
)
_ASSISTANT = re.compile(
    rf"^\W{{0,3}}(?:{'|'.join(sorted(ASSISTANTS))})\W{{0,3}}:[^\S\n]*\S"
    r"|[\"'](?:ai|assistant|bot|chatbot)[\"':]",
    re.MULTILINE | re.IGNORECASE,
)

_MOST_NAMES = 24
_SHORTEST_SAID = 8  # letters of an answer that a question holds
_ADDRESS = re.compile(r"\s*\w+://\S+\s*")
# at the head of a line, in any language and script
_LABEL = re.compile(
    r"^[\s*#>-]{0,3}([^\W\d][^\n:\uff1a]{0,23}?)[\s*]{0,3}[:\uff1a]\s*\S", re.MULTILINE
)


def turn_of(tree: Tree, overrides: Overrides) -> AskedTurn | None:
    """Find what the user asked in a run; None for a run that gives no sample.

    Args:
        tree: The run.
        overrides: The user's settings: where question, contexts and answer stand.
    """
    tools = overrides.context_tools
    calls = Calls(tree, None if tools is None else frozenset(tools))
    if not _is_a_turn(calls, overrides):
        return None
    named = {}
    results: list[Any] = []
    warnings = []
    doubts_of_places = []
    for field in ("question", "answer", "contexts"):
        values, fault = _values_user_named(field, tree, overrides)
        is_there = bool(values)
        value: Any = values[-1] if values else None
        place = getattr(overrides, f"{field}_from")
        if fault:
            doubts_of_places.append(Doubt(_CODES_OF_PLACES[field], fault))
        if field == "question":
            # of what the user names as the question no text is left out
            are_texts = isinstance(value, (list, tuple)) and all(
                isinstance(element, str) for element in value
            )
            asked = "\n".join(value or ()) if are_texts else question_in(value)
            value = overrides.question or asked or None
            is_there = value is not None
        elif field == "answer":
            # a generator lists its one reply
            is_one = isinstance(value, (list, tuple)) and len(value) == 1
            value = value[0] if is_one else value
            is_there = isinstance(value, str) or answer_text(value) is not None
        if is_there:
            named[field] = value
            # "search" and "search.documents" name one call
            is_path = isinstance(place, str)
            call_named = tree.call_by_place.get(place) if is_path else None
            name = place if call_named is None else call_named.name
            kind = None if call_named is None else call_named.kind
            if field != "contexts":
                doubts_of_places += [SEVERAL_RESULTS] if len(values) > 1 else []
                continue
            lists_of_call = {
                tuple(document.text for document in call.documents): call.documents
                for call in tree.root.walk()
                if call.name == name and kind in (None, call.kind)
                if call.documents is not None
            }
            results = values if len(values) > 1 else [*lists_of_call.values()]
            results = results if len(results) > 1 else []
        elif place is not None:
            nothing = "returned None"
            if isinstance(place, str):  # of the names that are there, one may be meant
                fields = (*tree.lookup_outputs, *tree.lookup_inputs)
                names = [each for each in fields if isinstance(each, Mapping)]
                # calls that gave documents go first
                inside = [*tree.root.walk()][1:]
                all_calls = sorted(inside, key=lambda call: call.documents is None)
                there = dict.fromkeys(
                    [*chain.from_iterable(names), *(call.name for call in all_calls)]
                )
                among = ", ".join(map(repr, [*there][:_MOST_NAMES]))
                nothing = f"leads to nothing among {among or 'none'}"
            fault = fault or f"{field}_from={name_of(place)} {nothing}"
            warnings.append(f"{fault}; the rules were used")
    question: str | None
    doubts: tuple[Doubt, ...]
    if "question" in named:
        question, doubts = named["question"], ()
    elif tree.question is not None:
        question = _said_of_input(calls, tree.question) or tree.question
        doubts = _doubts_of_repeated(calls, question)
        labelled = _labelled_question(question)
        if labelled is not None:  # the application wrote more around it
            question, doubts = labelled, _GUESSED
        shown_instead = _shown_instead(calls, question)
        asked_instead = _asked_instead(calls, question)
        if shown_instead or asked_instead:
            question, doubts = (shown_instead or asked_instead)[-1], _GUESSED
    else:
        question, doubts = _question_without_input(calls)
    # a page was handed in and nobody asked, or the talk so far stands around the question
    is_address = _ADDRESS.fullmatch(question or "") is not None
    said_last = letters_of(tree.history[-1].content) if tree.history else ""
    holds_talk = len(said_last) >= _SHORTEST_SAID and said_last in letters_of(question)
    is_beside = _stands_beside_the_question(calls, question)
    if "question" not in named and (is_address or holds_talk or is_beside):
        doubts = _GUESSED
    return AskedTurn(
        tree,
        calls,
        question,
        _standalone(calls, question),
        named,
        tuple(results),
        tuple(warnings),
        (*doubts_of_places, *doubts, *_doubts_of_history(calls, question)),
    )


def _stands_beside_the_question(calls: Calls, question: str | None) -> bool:
    """Whether a text of the input has no usual name, and no model or search was told it.

    Example: "en" of ``{"ticket": {"body": "Who lit it?"}, "language": "en"}``.
    """
    inputs = map(calls.tree.to_plain_value, calls.tree.lookup_inputs)
    fields = [each.items() for each in inputs if isinstance(each, Mapping)]
    names = [name for name, value in chain.from_iterable(fields) if value == question]
    if not names or not calls.prompted or not {*names}.isdisjoint(_USUAL_NAMES):
        return False
    told = [message.text for call in calls.prompted for message in call.prompt]
    told += [call.query or "" for call in calls.nodes]
    letters = letters_of(question)
    return not any(letters in letters_of(text) for text in told)


def _labelled_question(text: str) -> str | None:
    r"""Return the one question behind a label, if the text has further lines; None without.

    Example: "Question: Who lit it?\n\n[Output]\nNo lists." asks "Who lit it?".
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    asked = [line for line in lines if line.endswith(ENDS_OF_QUESTION)]
    labelled = "\n".join(line for line in asked if _LABEL.match(line))
    questions = lines_without_labels(labelled)
    return questions[0] if len(questions) == 1 and len(lines) > 1 else None


def _is_a_turn(calls: Calls, overrides: Overrides) -> bool:
    """Whether a run gives a sample: it searched, or it asked and answered from something.

    A run that asked and answered nothing, such as an index build, gives none. Texts are
    not compared for this.
    """
    tree = calls.tree
    if tree.root.kind == "ignored" or tree.is_by_hand:
        return False
    if calls.searches:
        return True
    if any(_values_user_named("contexts", tree, overrides)):
        return True
    if _answers_the_user(calls, overrides):
        return True
    reply = tree.root.reply
    asks_for_tools = reply is not None and bool(reply.tool_calls)  # that code will run
    is_after_a_tool = calls.named_tools or _answers_after_a_tool(calls)
    if is_after_a_tool and not asks_for_tools:
        return True
    if any(node.may_have_searched for node in calls.models):
        return True
    # an answer may rest on what an earlier turn of its conversation found; if the user
    # says which tools search, the texts of others are no finds
    kinds = {call.kind for call in tree.earlier_calls}
    if calls.context_tools is not None:
        kinds -= {"tool", "written"}
    if kinds and calls.models and tree.root.kind != "model":
        # a chain that sums the talk up is asked nothing new
        return not _doubts_of_repeated(calls, tree.question or "")
    is_asked = tree.question is not None or overrides.question is not None
    # by a text that is no mere verdict
    is_answered = any(
        likeness != NO_ANSWER and not calls.replies[call].is_verdict
        for call, likeness in calls.answer_likeness.items()
    ) or (is_asked and any(answer.text for answer in tree.answers))
    has_failed = bool(tree.error or tree.root.error)
    if any(node.documents for node in calls.nodes):
        return is_answered or (is_asked and has_failed)
    if calls.lists or any(answer.documents for answer in tree.answers):
        return is_asked and (is_answered or has_failed)
    # a path that leads nowhere is told where an answer may rest on it
    is_to_search = overrides.question is not None or isinstance(
        overrides.contexts_from, str
    )
    is_to_search = is_to_search or any(
        not calls.named_to_search.isdisjoint(node.offered_tools)
        for node in calls.models
    )
    return is_to_search and is_answered and not asks_for_tools


def _answers_the_user(calls: Calls, overrides: Overrides) -> bool:
    """Whether a run is asked and answers by itself: an engine, a pipeline, an agent.

    Talk in which nothing can have been searched is none, if it is of a conversation and
    the user names no tool that searches, or if the user says that no tool does. Nor is a
    greeting or thanks, where nothing was searched.
    """
    tree = calls.tree
    if tree.root.kind != "agent":
        return False
    has_ended_well = tree.is_complete and not (tree.error or tree.root.error)
    # The code of a workflow that asked no model may have indexed files: it answers nobody.
    is_mere_code = not calls.models and tree.output is None
    is_asked = tree.question is not None and (calls.models or not has_ended_well)
    is_answered = not is_mere_code and bool(tree.answers or is_asked)
    is_unread = not tree.is_complete and tree.flow_documents is not None  # a stream
    is_named = any(
        _values_user_named(field, tree, overrides)[0]
        for field in ("question", "answer")
    )
    if not (is_answered or is_unread or is_named):
        return False
    only_talks = has_ended_well and not overrides.context_tools
    for node in calls.nodes:
        may_have_searched = node.may_have_searched or bool(node.evidence_not_recorded)
        has_searched = node.documents is not None and not node.by_provider
        if has_searched or may_have_searched or node.kind in ("retriever", "tool"):
            only_talks = False
    is_of_conversation = tree.conversation_id is not None
    is_said = overrides.context_tools is not None  # that nothing is to be searched
    return not (only_talks and (is_of_conversation or is_said or _only_greets(calls)))


def _only_greets(calls: Calls) -> bool:
    """Whether all answers of a run greet or thank, and state nothing: "You're welcome!".

    A question back may be what a helper suggests, and the user asks next.
    """
    from ragmetrics_core.lexical.claims import claims_nothing
    from ragmetrics_core.lexical.declining import declines

    question = calls.tree.question
    texts = [answer.text for answer in calls.tree.answers if answer.text]
    texts = texts or [calls.replies[call].answer for call in calls.models]
    # who declines may have searched where nobody saw it
    return bool(texts) and all(
        claims_nothing(text, question)
        and not declines(text, question)
        and not only_asks(text)
        for text in texts
    )


def _answers_after_a_tool(calls: Calls) -> bool:
    """Whether the question may have been answered after a tool was called.

    By a model, or by the tool itself where the framework hands its text on.
    """
    if calls.tree.question is None and not calls.models:
        return False
    ends = [
        tool.ended
        for tool in calls.nodes
        if tool.kind == "tool" and not tool.is_control and not tool.by_provider
        if (tool.text or tool.error) and tool.ended is not None
    ]
    if ends and any(answer.text for answer in calls.tree.answers):
        return True
    first_end = min(ends, default=float("inf"))
    for call, likeness in calls.answer_likeness.items():
        is_in_tool = any(caller.kind == "tool" for caller in calls.paths[call])
        if call.began >= first_end and not is_in_tool and likeness != NO_ANSWER:
            return not calls.replies[call].is_verdict
    return False


def _values_user_named(
    field: str, tree: Tree, overrides: Overrides
) -> tuple[list[Any], str]:
    """Look up a field where the user said that it is.

    Returns what stands there, and what a function of the user raised. It is one value,
    but of a call that ran several times with different results: the last one counts.

    The question is looked up among the inputs of the run first, other fields among its
    outputs: inputs may hold an empty ``chunks`` that the run fills. A path may begin with
    "inputs" or "outputs", and may lead through an object with fields. Last, it may begin
    with the name of a call, or be a path into what a call was given or returned: the
    question is what it was asked, another field what it returned.
    """
    inputs, outputs, plain = (
        tree.lookup_inputs,
        tree.lookup_outputs,
        tree.to_plain_value,
    )
    mappings = (*inputs, *outputs) if field == "question" else (*outputs, *inputs)
    runs = (tree.native_run, *tree.further_native_runs)
    try:
        is_there, value = overrides.find(field, runs, *mappings)
    except SettingError as error:
        return [], str(error)
    if not is_there and isinstance(getattr(overrides, f"{field}_from"), str):
        plain_mappings = [plain(each) for each in mappings]
        plain_mappings += [{"inputs": plain(each)} for each in inputs]
        plain_mappings += [{"outputs": plain(each)} for each in outputs]
        is_there, value = overrides.find(field, (), *plain_mappings)
        if not is_there:
            return _values_of_calls(field, tree, overrides), ""
    value = plain(value)
    # of all that a component returned, that which may be the field
    place = getattr(overrides, f"{field}_from")
    is_whole = isinstance(value, Mapping) and all(
        f"{place}.{name}" in tree.call_by_place for name in value
    )
    if is_whole and not any(documents_in(value)):
        value = _what_counts_in(value, field)
    # None names nothing for this run
    return ([value] if is_there and value is not None else []), ""


def _values_of_calls(field: str, tree: Tree, overrides: Overrides) -> list[Any]:
    """List what the user's path leads to in the calls of a run, each value once.

    Example: "hits" and "search.hits" lead to the list of ``{"hits": [...]}`` that the step
    "search" returned, and so does "search", where no other list stands beside it.
    """
    by_name: list[Any] = []
    by_key: list[Any] = []
    for call in tree.root.walk():
        reply = None if call.reply is None else call.reply.text
        values: tuple[Any, ...] = (reply, call.text, call.returned)
        if field == "question":
            values = (call.query, call.arguments, call.given)
        elif field == "contexts":
            values = (call.documents, call.returned)
            if call.kind == "tool":  # a text that may hold several is no place of them
                values = (call.documents, divided(call.text or "", call.result))
        there = [each for each in values if each is not None]
        for value in map(tree.to_plain_value, there):
            is_there, leaf = overrides.find(field, (), {call.name: value})
            if is_there and leaf is value and isinstance(value, Mapping):
                leaf = _what_counts_in(value, field)
            if is_there and leaf is not None:
                by_name.append(leaf)
                break
        fields = (call.returned, call.given)
        for value in filter(None, fields[::-1] if field == "question" else fields):
            is_there, leaf = overrides.find(field, (), tree.to_plain_value(value))
            if is_there and leaf is not None:
                by_key.append(leaf)
                break
    found: list[Any] = []
    for leaf in by_name or by_key:
        if not any(_is_same(leaf, other) for other in found):
            found.append(leaf)
    return found[::-1] if field == "question" else found


def _what_counts_in(fields: Mapping[Any, Any], field: str) -> Any:
    """Return the one value of what a call was given or returned that may be a field of the user.

    Contexts are the one list, a question or an answer the one text, or one of a usual name.
    """
    if len(fields) == 1:
        return next(iter(fields.values()))
    if field != "contexts":
        return question_in(fields) if field == "question" else answer_in(fields)
    lists = [each for each in fields.values() if isinstance(each, (list, tuple))]
    return lists[0] if len(lists) == 1 else None


def _is_same(value: object, other: object) -> bool:
    """Whether two values are the same, but for other fields than the texts of documents."""
    texts = [each.text for each in documents_in(value)]
    return value == other or (
        bool(texts) and texts == [each.text for each in documents_in(other)]
    )


# The question

_QuestionAndDoubts = tuple[str | None, tuple[Doubt, ...]]


def _question_without_input(calls: Calls) -> _QuestionAndDoubts:
    """Return what was asked where no run had the question as its input.

    It is the query that no model wrote, else the field of the input that the answering
    prompt shows last, else the user's last message to a model. A query is sure where
    plain functions were called, so that it is an argument, and that prompt shows it;
    query and field are where they are the user's last message, word for word. A query
    that was made from the question may stand beside it.
    """
    searches = sorted(calls.searches, key=lambda search: not search.documents)
    around = [caller for search in searches for caller in calls.paths[search][:-1]]
    rerankers = [node for node in calls.nodes if node.kind == "reranker"]
    nodes: list[Node] = [*searches, *around, *calls.named_tools, *rerankers]
    # in plain words, of searches with documents first
    queries = list(dict.fromkeys(node.query for node in nodes if node.query))
    queries = [query for query in queries if parse_json(query) is None]
    of_user = [query for query in queries if not calls.is_written_query(query)]
    said_last = {last_words_of_user(call.prompt) for call in calls.likely_answers}
    if of_user:
        prompts = messages_of(calls.likely_answers)
        shown = [query for query in of_user if shows(prompts, query)]
        question = (shown or of_user)[0]
        if said_last == {question}:
            return question, ()
        given = _said_of_input(calls, question)
        if given is not None:
            return given, ()
        made_from = _question_beside(calls, question)
        if made_from is not None:
            return made_from, _GUESSED
        # the one text of the input, whatever its name, that a prompt shows
        texts_of_input = {
            text.strip()
            for inputs in calls.tree.lookup_inputs
            for text in find_instances(calls.tree.to_plain_value(inputs), str)
            if shows(prompts, text) or text.strip().endswith(ENDS_OF_QUESTION)
        }
        if shown and texts_of_input == {question.strip()}:
            return question, ()
        are_plain_functions = calls.tree.only_searches or calls.tree.root.name == FLOW
        is_sure = are_plain_functions and (len(shown) == 1 or not prompts)
        return question, () if is_sure else _GUESSED
    shown_fields = _fields_shown(calls)
    if shown_fields:
        is_sure = len({*shown_fields}) == 1 or said_last == {shown_fields[-1]}
        return shown_fields[-1], () if is_sure else _GUESSED
    # the models that chose to search, else those that may have answered
    writers = [call for call in calls.models if call in calls.query_writers]
    asked_first = [call for call in writers if call.reply and call.reply.tool_calls]
    asked_first += calls.likely_answers[::-1]
    asked_first += [call for call in calls.prompted if call is calls.tree.root]
    for call in asked_first:
        words = last_words_of_user(call.prompt)
        if words is not None and not _holds_documents(calls, words):
            is_sure = bool(queries) or call is calls.tree.root
            is_written = any(
                writer.began < call.began and calls.replies[writer].writes_query(words)
                for writer in calls.models
            )
            is_sure = is_sure and len(words) <= _LONGEST_QUERY and not is_written
            return words, () if is_sure else _GUESSED
    # instructions and documents stand around it
    for call in (*writers, *asked_first):
        lines = lines_without_labels(last_words_of_user(call.prompt) or "")
        asked = {line for line in lines if line.endswith(ENDS_OF_QUESTION)}
        of_user = [line for line in asked if not _is_of_documents(calls, line)]
        if len(of_user) == 1:
            return of_user[0], _GUESSED
    return (queries[0] if queries else None), _GUESSED


def _said_of_input(calls: Calls, query: str) -> str | None:
    """Return the text of the input that is the user's last message; None for none.

    No other message shows a query that was handed in beside it, or made from it. What a
    model wrote, the user did not say.
    """
    said_last = {last_words_of_user(call.prompt) for call in calls.likely_answers}
    given = [text for text in _fields_of_input(calls) if text in said_last]
    given = [text for text in given if not calls.is_written_query(text)]
    if not given or len(said_last) != 1:
        return None
    others = set(messages_of(calls.likely_answers)) - said_last
    return None if shows(others, query) else given[0]


def _question_beside(calls: Calls, query: str) -> str | None:
    """Return what a prompt shows the user to ask beside a query that was made from it.

    It is a line of the user's that has all words of the query and more, where another
    line is the query, or a question around words that are none; or the user's last message
    without a document, if the query is some words of it, or none of the user's shows it.
    None if there is nothing.
    """
    words = set(query.casefold().split())
    for call in calls.likely_answers[-1:]:
        of_user = [message.text for message in call.prompt if message.role == "user"]
        lines = lines_without_labels("\n".join(of_user))
        # some words of it, and no question that instructions stand around
        bare_query = query.strip()
        is_line = bare_query in lines
        is_whole = is_line or bare_query.endswith(ENDS_OF_QUESTION)
        for line in lines if len(words) > 1 else ():
            has_more = words < set(re.findall(r"[\w'-]+", line.casefold()))
            is_question = not is_whole and line.endswith(ENDS_OF_QUESTION)
            may_ask = has_more and (is_line or is_question)
            if may_ask and not _is_of_documents(calls, line):
                return line
        last = last_words_of_user(call.prompt) or query
        is_short = len(last) <= _LONGEST_QUERY and not _holds_documents(calls, last)
        is_taken = not is_whole and shows([last], query)
        if is_short and (is_taken or not shows(of_user, query)):
            return last
    return None


def _is_of_documents(calls: Calls, line: str) -> bool:
    """Whether a line stands in a document that the run had."""
    letters = letters_of(line)
    return any(
        letters in letters_of(document.text)
        for each in calls.lists
        for document in each.documents
    )


def _fields_of_input(calls: Calls) -> list[str]:
    """Return the texts among the fields of the input, where it has several."""
    found: list[str] = []
    for inputs in calls.tree.lookup_inputs:
        plain_inputs = calls.tree.to_plain_value(inputs)
        fields = plain_inputs.values() if isinstance(plain_inputs, Mapping) else ()
        texts = [field for field in fields if isinstance(field, str) and field.strip()]
        found += texts if len(texts) > 1 else []
    return found


def _fields_shown(calls: Calls) -> list[str]:
    """List of several fields of the input those that a prompt shows, the last one last."""
    prompts = messages_of(calls.likely_answers)
    shown = [text for text in _fields_of_input(calls) if shows(prompts, text)]
    return sorted(shown, key="\n".join(prompts).rfind)


def _shown_instead(calls: Calls, question: str) -> list[str]:
    """List the questions of the input that a prompt shows in the place of the one found.

    Example: of ``{"query": "lamp lit year", "original_question": "Who lit it?"}`` the
    prompt shows the second. A model that wrote a query may have read the first.
    """
    if calls.query_writers:
        return []
    prompts = messages_of(calls.likely_answers)
    instead: list[str] = []
    for text in _fields_shown(calls):
        # the query may be some words of it
        others = [prompt.replace(text, "\n") for prompt in prompts]
        is_question = text != question and text.endswith(ENDS_OF_QUESTION)
        is_question = is_question and takes_words(question, text)
        if is_question and not shows(others, question):
            instead.append(text)
    return instead


def _asked_instead(calls: Calls, text: str) -> list[str]:
    """List what was searched for, and shown to the answering model, in the place of a text.

    Example: the input is ``{"request_id": "8f3a"}``. No prompt shows "8f3a", and search
    and prompt agree on "Who lit the lamp?", which shares no word with it. What is handed
    in as question or query, or put into other words, is what was asked.
    """
    given_as = [
        str(name)
        for inputs in map(calls.tree.to_plain_value, calls.tree.lookup_inputs)
        for name, value in (inputs.items() if isinstance(inputs, Mapping) else ())
        if text in find_instances(value, str)
    ]
    is_named = any("question" in name or "query" in name for name in given_as)
    if not given_as or is_named or shows(messages_of(calls.prompted), text):
        return []
    prompts = messages_of(calls.likely_answers)
    fields = [*find_instances(parse_json(text), str)]
    queries = dict.fromkeys(search.query or "" for search in calls.searches)
    return [
        query
        for query in queries
        if shows(prompts, query) and not calls.is_written_query(query)
        if query in fields or not takes_words(query, text)
    ]


def _holds_documents(calls: Calls, message: str) -> bool:
    """Whether a message shows a document that the run had."""
    texts = {document.text for each in calls.lists for document in each.documents} | {
        tool.text or "" for tool in calls.text_tools
    }
    return any(shows([message], text) for text in texts)


def _doubts_of_repeated(calls: Calls, question: str) -> tuple[Doubt, ...]:
    """Return a doubt where the question is that of an earlier turn, and not asked again."""
    line = as_one_line(question)
    earlier = [
        as_one_line(message.content)
        for message in calls.tree.history
        if message.role == "user"
    ]
    if line not in earlier:
        return ()
    for call in calls.likely_answers[-1:]:
        words = last_words_of_user(call.prompt)
        if words is not None and line in as_one_line(words):
            return ()
    return _GUESSED


# The history


def _doubts_of_history(calls: Calls, question: str | None) -> tuple[Doubt, ...]:
    """Return a doubt where an earlier conversation was handed in or shown, and not read.

    A user's turn that shows documents is a whole prompt that was kept.
    """
    tree = calls.tree
    line = as_one_line(question)
    is_summed_up = False
    for call in calls.prompted:
        for message in call.prompt:
            # what stands behind the question is a summary of this turn's own steps
            is_asked = message.role == "user" and line in as_one_line(message.text)
            if line and is_asked:
                break
            is_summed_up = is_summed_up or message.role == "summary"
    is_handed_in = bool(tree.history) and not tree.is_history_of_prompt
    if is_summed_up and not is_handed_in and tree.turn_number is None:
        return _SHOWN  # no earlier turn was captured that tells what was said
    if tree.history:
        of_user = [turn.content for turn in tree.history if turn.role == "user"]
        if any(_holds_documents(calls, text) for text in of_user):
            return _WHOLE_PROMPTS
        # found in prompts before it was known what is asked: steps of this turn, too
        if tree.question is None and line in map(as_one_line, of_user):
            return _SHOWN
        roles = [turn.role for turn in tree.history] + ["user"]
        # an agent may have answered by a call of a tool, such as a schema's
        is_unanswered = ("user", "user") in pairwise(roles)
        return _UNANSWERED if is_unanswered and tree.turn_number is None else ()
    # also to the model that rewrites the question
    if history_of_prompts(tree.root, question, tree.instructions):
        return _SHOWN
    own_replies = {as_one_line(reply.text) for reply in calls.replies.values()}
    for inputs in tree.lookup_inputs:
        plain_inputs = tree.to_plain_value(inputs)
        doubts = _doubts_of_inputs(calls, plain_inputs, question, own_replies)
        if doubts:
            return doubts
    documents = [each for found in calls.lists for each in found.documents]
    for call in calls.prompted:
        for text in [each.text for each in call.prompt if has_both_speakers(each.text)]:
            outside = text
            for document in documents:
                # a question of a FAQ, a label, and the answer in its metadata
                for value in document.texts[len(document.own_texts) :]:
                    parts = map(re.escape, (document.text_without_metadata, value))
                    outside = re.sub(r"\s*\w{0,24}\W{1,4}".join(parts), "", outside)
                # an answer may be a document's whole text
                outside = outside.replace(document.text, "x")
            outside = outside.replace(f"HumanMessage(content={question!r}", "")
            if has_both_speakers(outside):
                return _SHOWN
    return ()


def _doubts_of_inputs(
    calls: Calls, inputs: object, question: str | None, own_replies: set[str]
) -> tuple[Doubt, ...]:
    """Return a doubt where inputs hold turns, or earlier words in a field named like a history.

    What models of this run replied is no earlier turn.
    """
    if not isinstance(inputs, Mapping):
        return ()
    asked = as_one_line(question)
    for name, value in inputs.items():
        if names_a_history(name):
            # words that are not the question; one word, such as an id, says nothing
            words = map(as_one_line, find_instances(value, str))
            if any(" " in line and line != asked for line in words):
                return _UNREAD
        texts = value if isinstance(value, (list, tuple)) else [value]
        lines = "\n".join(text for text in texts if isinstance(text, str))
        is_question = as_one_line(lines) == asked
        # two labels, such as "Benutzer:" and "Assistent:", take turns before the question
        other_lines = [
            line
            for line in lines.splitlines()
            if not asked or asked not in as_one_line(line)
        ]
        labels = _LABEL.findall("\n".join(other_lines))
        first, second = set(labels[::2]), set(labels[1::2])
        is_talk = len(first) == len(second) == 1 and first != second
        is_talk = is_talk and (has_both_speakers(lines) or _is_shown(calls, lines))
        if is_talk and not is_question and not _holds_documents(calls, lines):
            return _LABELLED
        replies = {
            as_one_line(turn.content)
            for turn in read_history(value)
            if turn.role == "assistant"
        }
        if replies - own_replies:
            return _UNREAD
        doubts = _doubts_of_inputs(calls, value, question, own_replies)
        if doubts:
            return doubts
    return ()


def _is_shown(calls: Calls, lines: str) -> bool:
    """Whether a model was shown one of some lines, as no tool returned it, or none is recorded.

    Of a text that begins with a label, unlike one with a header, also the words behind it.
    """
    prompts = [
        message.text
        for call in calls.nodes
        for message in call.prompt
        if message.role != "tool"
    ]
    if not prompts or any(shows(prompts, line) for line in lines.splitlines()):
        return True
    if not _LABEL.match(lines.strip()):
        return False
    said = [re.split("[:\uff1a]", line, maxsplit=1)[-1] for line in lines.splitlines()]
    said = [words for words in said if " " in words.strip()]
    known = letters_of("\n".join(prompts))
    return any(letters_of(words) in known for words in said if letters_of(words))


def has_both_speakers(text: str) -> bool:
    """Whether lines of a text, such as "User: Hi" and "AI: Hello", are a talk."""
    if any(name in text for name in _MESSAGES):
        return True
    return bool(_USER.search(text) and _ASSISTANT.search(text))


# The standalone question


def _standalone(calls: Calls, question: str | None) -> str | None:
    """Return the one query that models wrote.

    Of several queries, such as parts of the question, none stands for the question.
    """
    searches = [*calls.searches, *calls.named_tools]
    queries = {search.query for search in searches if search.query}
    written = [
        query
        for query in queries
        if parse_json(query) is None and calls.is_written_query(query)
    ]
    if len(written) != 1 or len(written[0]) > _LONGEST_QUERY:
        return None
    is_question = as_one_line(written[0]) == as_one_line(question)
    return None if is_question else written[0]


# In inputs that a user handed to several components


def question_among(
    inputs: Iterable[Mapping[str, Any]],
    prompts: Sequence[Sequence[str]],
    carried: str | None,
) -> _QuestionAndDoubts:
    """Choose the question among the inputs of several components; None without one.

    The question that the answer carries, if the user handed it in. Else a text in an
    input of a usual name: of several the one that the last model was shown last, then
    the one that most inputs got. Else the only text that a model was shown. It is in
    doubt where it may be a store's query: models were shown another text, and it at
    most within that one.

    Example: ``{"builder": {"question": "Who?", "tone": "kind"}}`` hands in two texts.
    "Who?" is the question, since an input named "question" got it.

    Args:
        inputs: Of each component what it was handed, by the names of its inputs.
        prompts: The texts that each model was shown, in the order of the calls.
        carried: The question that the answer carries; None if it carries none.
    """
    texts: list[tuple[str, str]] = []
    listed: set[str] = set()  # of a list of texts none is surely asked
    texts_by_component: list[set[str]] = []
    for inputs_of_component in inputs:
        n_before = len(texts)
        for name, value in inputs_of_component.items():
            elements = value if isinstance(value, tuple) else ()
            listed_here = {each for each in elements if isinstance(each, str)}
            listed |= listed_here
            if listed_here:
                continue
            question = question_in(value, depth=0)
            if question:
                texts.append((name, question))
        texts_by_component.append({text for _, text in texts[n_before:]})
    lines = [as_one_line(text) for _, text in texts]
    if carried and as_one_line(carried) in lines:
        return carried, ()
    usual = [text for name, text in texts if name in _USUAL_NAMES]
    shown = {
        text for _, text in texts if any(shows(prompt, text) for prompt in prompts)
    }
    if not usual:
        return shown.pop() if len(shown) == 1 else carried or None, ()
    all_prompts = letters_of("\n".join("\n".join(prompt) for prompt in prompts))
    others = {*listed, *(text for _, text in texts)} - {*usual}
    others = {text for text in others if letters_of(text) in all_prompts}
    is_asked = any(
        text in shown
        and not any(
            letters_of(text) in letters_of(other)
            and not any({text, other} <= together for together in texts_by_component)
            for other in others
        )
        for text in usual
    )
    last_prompt = letters_of("\n".join(prompts[-1])) if prompts else ""

    def preference(text: str) -> tuple[int, int, int]:
        """Where it stands last in the last prompt, then its length, then how often it was given."""
        letters = letters_of(text)
        start = last_prompt.rfind(letters) if letters else -1
        end = (-1, 0) if start < 0 else (start + len(letters), len(letters))
        return (*end, lines.count(as_one_line(text)))

    question = max(usual, key=preference)
    # the last model was shown another text of the user's, and not this one
    is_other_last = letters_of(question) not in last_prompt and any(
        letters_of(text) in last_prompt for text in others
    )
    is_doubted = is_other_last or (others and not is_asked)
    return question, _GUESSED if is_doubted else ()
