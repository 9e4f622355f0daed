"""Stage 2: what was found, and what models of the run wrote. Pure.

What a model wrote is no evidence, whoever carries it: a document that holds its reply, a
tool that repeats an argument, a search of a store into which a tool put it. The run is
read in the order in which it happened, since what was found before a model repeated it
stays found.

Example: a model calls ``save("The tower fell in 1850.")``, the tool returns "Saved: The
tower fell in 1850.", and a search of the store returns this note beside a page of a book.
The page was found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from math import inf
from operator import itemgetter

from ragmetrics_core.capture.calls import (
    CUT,
    AskedTurn,
    DocumentList,
    Origins,
    end_of,
    tools_of,
)
from ragmetrics_core.capture.divided import divided
from ragmetrics_core.capture.forms import (
    SHORTEST,
    form_of,
    is_entry,
    letters_of,
)
from ragmetrics_core.capture.shown import KnownTexts, shows
from ragmetrics_core.capture.structures import (
    compact,
    find_instances,
    parse_json,
    texts_of_query,
)
from ragmetrics_core.capture.tree import Document, Message, Node

_SHORTEST_CUT = 24  # letters of an argument that is no name
_LONGEST_PHRASE = 48  # letters that may stand in another sentence by chance
_LONGEST_FRAME = 32  # letters around the answer of an engine
_LONG_WORD_WITH_SIGNS = re.compile(r"(?=.*[a-zA-Z0-9][^a-zA-Z]+[a-zA-Z0-9])[!-~]{16,}")

_BETWEEN_STRINGS = re.compile(r'"[\s:,]+"')

# of each letter of a text: found or unknown, asked by a model, or written by one
_OTHER, _ASKED, _WRITTEN = range(3)
# of what happened at one moment: a model wrote before anybody repeats it
_REPLY, _CALLED, _LIST, _TEXT = range(4)


class OriginsReader:
    """Tells what was found from what models wrote, in the order in which it happened.

    Args:
        turn: The question, and the calls that were made for it.
    """

    def __init__(self, turn: AskedTurn) -> None:
        calls = turn.calls
        self._calls = calls
        users = [each.content for each in turn.tree.history if each.role == "user"]
        self._texts_of_user = [*map(letters_of, users), letters_of(turn.question)]
        self._found = KnownTexts()
        self._found_whole: set[str] = set()  # documents, by their letters
        # what models wrote, and what of it went to tools, whose stores may give it back
        self._said = KnownTexts()
        self._passed = KnownTexts()
        self._engines: list[Node] = []  # inside the run, that have answered
        self._origins = Origins()
        # by model, and by engine inside the run
        self._texts_of_writers: dict[Node, tuple[str, ...]] = {
            call: calls.replies[call].texts for call in calls.models
        }
        for node in calls.nodes[1:]:
            if node.text and node.kind in ("agent", "step") and node.text.strip():
                self._texts_of_writers[node] = (node.text,)
        asked = [node for node in calls.nodes if node.query]
        self._queries = {letters_of(node.query) for node in asked} - {""}
        self._long_queries = {q for q in self._queries if len(q) >= SHORTEST}
        found_by = [node for node in asked if node.documents]
        self._queries_of_searches = {
            letters_of(node.query) for node in found_by if node.kind == "retriever"
        } - {""}

    def origins(self) -> Origins:
        """Read the run, and return what was found."""
        for earlier in self._calls.tree.earlier_calls:
            for item in earlier.items if earlier.kind != "written" else ():
                self._found.add(item.text)
            if earlier.kind in ("tool", "written"):
                self._pass(texts_of_query(earlier.query))
        for _, what, node, documents in self._moments():
            if what == _REPLY:
                if node.reply is None:  # an engine inside the run
                    self._engines.append(node)
                    text = node.text or ""
                    # a step may hand its answer on; one of a word or two is elsewhere, too
                    if node.kind == "agent" and len(letters_of(text)) >= SHORTEST:
                        self._origins.answers_handed_on.append((node, text))
                else:
                    self._pass_calls([node.reply, *node.other_replies])
                for text in self._texts_of_writers[node]:
                    self._said.add(text)
            elif what == _CALLED and node.kind == "tool":
                self._pass(texts_of_query(node.query))
            elif what == _CALLED:
                # what a model gave to tools in earlier turns
                self._pass_calls(node.prompt)
            elif what == _TEXT:
                self._read_text(node)
            elif documents is not None:
                self._read_list(documents)
        return self._origins

    def _moments(self) -> list[tuple[float, int, Node, DocumentList | None]]:
        """List what happened, the earliest first."""
        calls = self._calls
        moments: list[tuple[float, int, Node, DocumentList | None]] = [
            (end_of(node), _REPLY, node, None) for node in self._texts_of_writers
        ]
        tools = [node for node in calls.nodes if node.kind == "tool"]
        moments += [(node.began, _CALLED, node, None) for node in calls.prompted]
        moments += [(node.began, _CALLED, node, None) for node in tools]
        moments += [(end_of(node), _TEXT, node, None) for node in tools]
        lists = [*calls.lists]
        for tool in calls.named_tools:
            passages = divided(tool.text or "", tool.result)
            if passages is None:
                passages = (Document(tool.text or ""),)
                self._origins.undivided.append(tool.name)
            lists.append(DocumentList(end_of(tool), tool, passages))
        moments += [(each.moment, _LIST, each.call, each) for each in lists]
        return sorted(moments, key=itemgetter(0, 1))

    # What models wrote

    def _pass(self, texts: Iterable[str]) -> None:
        """Note what a model gave to a tool."""
        for text in texts:
            self._said.add(text)
            self._passed.add(text)

    def _pass_calls(self, messages: Iterable[Message]) -> None:
        """Note what a model gave to the tools that its messages call."""
        for message in messages:
            for tool_call in message.tool_calls if message.role == "assistant" else ():
                arguments = tool_call.arguments
                self._pass([compact(arguments), *find_instances(arguments, str)])

    def _texts_inside(self, call: Node) -> list[str]:
        """List what models and engines inside a call replied."""
        texts: list[str] = []
        for node in call.walk():
            texts += self._texts_of_writers.get(node, ())
        return texts

    # Documents

    def _read_list(self, each: DocumentList) -> None:
        """Keep the documents of a list that no model wrote."""
        found_documents = []
        is_of_named_tool = each.call in self._calls.named_tools
        for document in each.documents:
            letters = letters_of(document.text)
            is_known = letters in self._found_whole
            if not letters and not document.text.strip():
                continue
            if not is_known and self._is_written(document, each):
                self._origins.written.add(letters)
                continue
            if is_of_named_tool:  # a passage is what its text tells
                marks = self._marks(document.text, each.call, is_search=True)
                text = self._without_marked(document.text, marks)
                if text != document.text:
                    self._origins.cut[each.call.name] = None
                    document = replace(document, text=text)
            found_documents.append(document)
            if is_known and not document.forms:
                continue  # most lists hold what an earlier one held
            self._found_whole.add(letters)
            self._origins.written.discard(letters)
            for text in document.own_texts:
                self._found.add(text)
        if found_documents or not each.documents:
            self._origins.lists.append(replace(each, documents=tuple(found_documents)))

    def _is_written(self, document: Document, each: DocumentList) -> bool:
        """Whether a model wrote a document of a list, alone or beside a few words."""
        call = each.call
        is_search = each.is_returned and call.kind in ("retriever", "tool")
        letters = letters_of(document.text)
        frames: list[tuple[bool, float, Node]] = []
        for engine in self._engines:
            # "Sub question: When did it open? Response: In 1874."
            frame = self._frame_around(engine, document.text)
            is_elsewhere = is_search and call not in self._calls.paths[engine]
            if frame <= _LONGEST_FRAME and not is_elsewhere:
                is_of_other = letters_of(engine.query) not in letters
                frames.append((is_of_other, frame, engine))
        if frames:  # of several that answered so, the one that was asked so
            _, _, engine = min(frames, key=itemgetter(0, 1))
            self._origins.answers_handed_on.append((engine, document.text))
            return True
        is_of_tool = call in self._calls.named_tools
        # a label before it, such as "Out of stock:", may be what the tool was named for
        is_whole = is_of_tool and document.text == call.text
        if is_whole and letters in map(letters_of, texts_of_query(call.query)):
            return True
        for text in {document.text, document.text_without_metadata}:
            marks = self._marks(text, call, is_search)
            if any(marks) and _are_written(
                letters_of(text), marks, is_of_tool=is_of_tool
            ):
                return True
        return False

    def _frame_around(self, engine: Node, text: str) -> float:
        """Count the letters of a text around an engine's answer, without what was asked.

        The words of a short answer may stand in its question, too: "Which essays?
        Essays.". Where the question does not stand beside it, a short answer must be an
        entry. Infinity for a text that does not hold the answer.
        """
        letters, answer = letters_of(text), letters_of(engine.text)
        own_query = letters_of(engine.query)
        asked = sorted({own_query, *self._long_queries} - {""}, key=len, reverse=True)
        is_entry_of_text = shows([text], engine.text or "")
        shortest = inf
        places = re.finditer(f"(?={re.escape(answer)})", letters) if answer else ()
        for start in [place.start() for place in places]:
            around = [letters[:start], letters[start + len(answer) :]]
            is_beside_query = own_query and any(own_query in each for each in around)
            for query in asked:
                around = [each.replace(query, "") for each in around]
            if is_beside_query or is_entry_of_text:
                shortest = min(shortest, len("".join(around)))
        return shortest

    def _marks(self, text: str, call: Node, is_search: bool) -> bytearray:
        """Mark the letters of a text that a call took or returned, by who wrote them.

        A search, or a tool that gives documents, holds what a model wrote only where the
        model gave it to a tool, or ran inside. What was found before is no model's own.
        """
        letters = letters_of(text)
        marks = bytearray(len(letters))
        known = self._passed if is_search else self._said
        places = known.places_in(text)
        if is_search and call.children:
            places += KnownTexts(self._texts_inside(call)).places_in(text)
        if not places:
            return marks
        asked = set(self._queries_of_searches if is_search else self._queries)
        for tool in tools_of(self._calls.paths[call]):
            asked.update(map(letters_of, texts_of_query(tool.query)))
        form = form_of(text)
        found = bytearray(len(letters))
        for start, end in self._found.places_in(text):
            found[start:end] = bytes([1]) * (end - start)
        for start, end in places:
            piece = letters[start:end]
            if found.count(0, start, end) < SHORTEST:
                continue  # a model repeats what was found
            if not any(piece in each for each in asked):
                if not _is_address(text, *form.place_in_source(start, end)):
                    marks[start:end] = bytes([_WRITTEN]) * len(piece)
            elif call.kind != "retriever":  # which repeats nothing that it is asked
                is_long = len(piece) >= _SHORTEST_CUT
                if is_long or is_entry(text, *form.place_in_source(start, end)):
                    marks[start:end] = bytes([_ASKED]) * len(piece)
        return marks

    # Texts of tools

    def _read_text(self, tool: Node) -> None:
        """Note what a tool found, without what models wrote."""
        text = tool.text or ""
        if tool.error or not text.strip():
            return
        letters = letters_of(text)
        for engine in self._engines:
            if tool in self._calls.paths[engine] and shows([text], engine.text or ""):
                self._origins.answers_handed_on.append((engine, text))
        marks = self._marks(text, tool, is_search=False)
        replies = self._texts_inside(tool)
        # of a model inside the tool one reply of some length is enough
        is_reply = any(
            reply in letters
            and (len(reply) >= SHORTEST or 2 * len(reply) >= len(letters))
            for reply in set(map(letters_of, replies)) - {""}
        )
        # behind a label, such as "Out of stock:", a name may be what was looked up
        is_argument = letters in map(letters_of, texts_of_query(tool.query))
        is_own = _are_written(letters, marks, is_of_tool=True) or (
            is_argument and not self._found.places_in(text)
        )
        if is_reply or is_own:
            # '{"reply": "At ten.", "meta": {}}': the reply alone
            texts_inside = set(find_instances(parse_json(text), str))
            in_structure = [reply for reply in replies if reply in texts_inside]
            self._origins.texts_of_tools[tool] = ("written", [text, *in_structure][-1])
            return
        self._origins.texts_of_tools[tool] = ("tool", self._without_marked(text, marks))
        for found in re.finditer(rb"\x00+", marks):
            self._found.add(letters[found.start() : found.end()])

    def _without_marked(self, text: str, marks: bytearray) -> str:
        """Return a text with dots in the place of what models wrote.

        Phrases inside of sentences, addresses and what the user said stay.
        """
        form = form_of(text)
        for written in reversed(list(re.finditer(rb"[^\x00]+", marks))):
            start, end = written.span()
            first, last = form.place_in_source(start, end)
            is_inside = text[first - 1 : first] == text[last : last + 1] == " "
            is_phrase = is_inside and end - start <= _LONGEST_PHRASE
            piece = form.letters[start:end]
            is_of_user = any(piece in each for each in self._texts_of_user)
            if end - start < _SHORTEST_CUT or is_phrase or is_of_user:
                continue
            if not _is_address(form.source, first, last):
                # what stands between two strings stays: JSON goes on being JSON
                between = _BETWEEN_STRINGS.findall(text, first, last)
                text = text[:first] + CUT.join(["", *between, ""]) + text[last:]
        return text


def _are_written(letters: str, marks: bytearray, *, is_of_tool: bool) -> bool:
    """Whether a model wrote a text, but for a few words around its own.

    What a tool was asked may stand before what it found: "When did it open? In 1874.".
    So of that only a label may be left, which holds no number: "Noted: it opened.". Of
    a tool's text nothing is lost that is longer than a word or two.
    """
    n_others, n_written = marks.count(_OTHER), marks.count(_WRITTEN)
    if n_written:
        is_rest_found = is_of_tool and bytes(SHORTEST) in marks
        return n_others <= n_written and not is_rest_found
    if not marks or marks[-1] != _ASKED or n_others > marks.count(_ASKED):
        return False
    label = [letter for letter, mark in zip(letters, marks, strict=True) if not mark]
    return not any(letter.isdigit() for letter in label)


def _is_address(text: str, first: int, last: int) -> bool:
    """Whether a place in a text holds an address, a path or an id, which claims nothing.

    Each is one long word with signs in it. Beside it few letters may stand: "Page URL:".
    """
    words = text[first:last].split()
    said = [word for word in words if not _LONG_WORD_WITH_SIGNS.fullmatch(word)]
    return len(letters_of(" ".join(said))) < SHORTEST
