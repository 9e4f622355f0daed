"""Rows of a report as data for the page.

There is an index for the table, and everything else as one line per row.
"""

import json
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields as fields_of
from itertools import chain, pairwise
from typing import Any
from zlib import compressobj

from ragmetrics_core.data import MeasuredUse, Sample, SampleResult, replace_surrogates
from ragmetrics_core.data.display import one_line
from ragmetrics_core.data.sentences import split_sentences
from ragmetrics_core.lexical.text import canonical_words, content_terms
from ragmetrics_core.reporting.diagnosis import Diagnosis
from ragmetrics_core.reporting.glance import row_glance
from ragmetrics_core.reporting.journey import (
    LOSS_IN_WORDS,
    Passage,
    SampleJourney,
    journey_of,
)
from ragmetrics_core.reporting.jsonl import json_data
from ragmetrics_core.reporting.run_facts import digest_of_texts
from ragmetrics_core.reporting.tables import is_formula

LONGEST = 20_000
"""Most bytes of one text that the page holds."""

_EXCERPT = 160
# its id stands beside its text
_FIELDS_OF_PASSAGE = [one.name for one in fields_of(Passage) if one.name != "id"]
_FIELDS, _VALUES, _VALUE = 20, 40, 60
LARGEST_ROWS = 11_000_000
"""Most bytes of packed rows that the page holds."""

_COMPRESSION = 4  # in less than half the time of the usual 6, a quarter larger
_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def cut(text: str) -> str:
    """The text, cut after 20,000 bytes of UTF-8 with a note of how much is missing."""
    text = str(replace_surrogates(text))
    beginning = _beginning(text)
    n_missing = len(text) - len(beginning)
    if not n_missing:
        return text
    note = f" … [cut here: {n_missing:,} more characters; the results file has all of them]"
    return beginning + note


def _beginning(text: str) -> str:
    """As much of a text as the page holds, without a character cut in its middle."""
    return text.encode()[:LONGEST].decode(errors="ignore")


def entry_of(
    row: SampleResult, metrics: Sequence[str], diagnosis: Diagnosis
) -> list[Any]:
    """Make the entry of a row in the page's table, as a list for the page's script.

    Example: [0, "s1", "Who built the tower?", [.9, .8], "no fault found", "Ada.", None].

    Returns:
        In this order:

        - the row's index, its id, and an excerpt of the question (or of the problem);
        - a list with a score or a status for each metric;
        - what became of it, and the words that show it, else the answer;
        - how surely the contexts of a captured sample are known, else None;
        - if the sample was captured in a conversation: its name, and the turn.
    """
    sample = row.sample
    glance = row_glance(row, diagnosis)
    capture_notes = sample.capture if sample else None
    # the title is the problem of a bad row, else the first text of the sample
    texts = [row.problem]
    if sample is not None:
        texts += [sample.question or "", sample.answer or "", *sample.reference]
    first_text = next((text for text in texts if text), "")
    title = " ".join(str(replace_surrogates(first_text))[:1000].split())
    outcomes: list[float | str | None] = []
    for metric in metrics:
        result = row.results.get(metric)
        if result is None:
            outcomes.append(None)
        elif result.value is None:
            outcomes.append(result.status)
        else:
            outcomes.append(round(result.value, 4))
    entry = [
        row.index,
        cut(sample.id or "") if sample else "",
        title if len(title) <= _EXCERPT else title[:_EXCERPT] + "…",
        outcomes,
        glance.name,
        one_line(glance.answer, _EXCERPT),
        capture_notes.grade if capture_notes else None,
    ]
    # the record of the conversation: what the application called, and in which turn
    ledger = sample.ledger if sample else None
    if ledger is not None:
        entry += [cut(ledger.conversation or ""), ledger.turn]
    return entry


def journey_data(followed: SampleJourney | None) -> dict[str, Any] | None:
    """What became of each passage and fact of a row, for the opened row.

    What is not known is left out; None where nothing was lost on the way.
    """
    if followed is None:
        return None
    is_passage_lost = any(
        passage.kept is False or passage.shown in ("cut", "not shown")
        for passage in followed.passages
    )
    if not is_passage_lost and all(fact.lost is None for fact in followed.facts):
        return None
    passages = []
    for passage in followed.passages:
        known = {name: getattr(passage, name) for name in _FIELDS_OF_PASSAGE}
        if passage.shown != "cut":
            del known["share"]
        passages.append(
            {name: value for name, value in known.items() if value is not None}
        )
    facts = []
    for fact in followed.facts:
        data: dict[str, Any] = {"known": fact.known}
        if fact.lost is not None:
            data["lost"] = LOSS_IN_WORDS[fact.lost]
        if fact.passages:
            data["passages"] = fact.passages
        facts.append(data)
    return {"passages": passages, "facts": facts, "unknown": dict(followed.unknown)}


def facets_of(rows: Iterable[SampleResult]) -> dict[str, dict[str, list[Any]]]:
    """The fields of the metadata by which people can filter rows on the page.

    A field is taken if its values are short words, whole numbers or truth values; if it
    has 2 to 40 different values; and if some value stands in several rows. Example: the
    languages "en", "de", "en" of three rows: {"language": {"values": ["en", "de"],
    "of": [0, 1, 0]}}.

    Returns:
        For each field its ``values``, the most frequent first, and ``of``, for each row
        the index of its value or None. Fields behind the first twenty are empty: the
        page only counts them.
    """
    fields_by_row = []
    names: dict[str, None] = {}  # as an ordered set
    for row in rows:
        # words and whole numbers, a little longer than people filter by
        fields_of_row = {
            cut(name): str(replace_surrogates(str(value)[: _VALUE + 1])).strip()
            for name, value in (row.sample.metadata if row.sample else {}).items()
            if isinstance(value, str | int)
        }
        fields_by_row.append(fields_of_row)
        names.update(dict.fromkeys(fields_of_row))

    facets: dict[str, dict[str, list[Any]]] = {}
    for name in names:
        values = [fields_of_row.get(name) for fields_of_row in fields_by_row]
        counts = Counter(value for value in values if value is not None)
        most_values = min(_VALUES, counts.total() - 1)
        if not 1 < len(counts) <= most_values or max(map(len, counts)) > _VALUE:
            continue
        if len(facets) >= _FIELDS:
            facets[name] = {}
            continue
        frequent_first = [value for value, _ in counts.most_common()]
        index_by_value = {value: index for index, value in enumerate(frequent_first)}
        indices = [None if value is None else index_by_value[value] for value in values]
        facets[name] = {"values": frequent_first, "of": indices}
    return facets


def detail_lines(
    rows: Iterable[tuple[SampleResult, Diagnosis]],
) -> Iterator[str]:
    """Yield everything known of each row, one JSON object per line, in their order.

    ``cut`` tells what texts lost, ``journey`` what became of passages and facts,
    ``answer`` how the answer is shown, ``claims`` what they rest on, ``formulas`` which columns a spreadsheet would
    compute, ``advice`` what to mend, ``use`` what was measured of passages, and ``texts``
    which texts a person who labels it saw.
    """
    for row, diagnosis in rows:
        n_cut = Counter[str]()
        text, fields = _data_of(_as_shown(row), n_cut)

        # what the claims of an answer rest on, as a poll of the majority says
        evidence = _evidence_of_adherence(fields) or {}
        side = "yes" if evidence.get("yes", 0) > evidence.get("no", 0) else "no"
        claims: list[Any] = []
        claims_of_polls = (evidence.get("ledger") or {}).get("claims") or ()
        for poll, of_poll in zip(
            evidence.get("polls") or (), claims_of_polls, strict=False
        ):
            if of_poll and poll.get("verdict") == side:
                claims = of_poll
                break

        # the texts that the page writes into a CSV, by column
        sample = fields.get("sample") or {}
        columns = {
            name: sample.get(name) or "" for name in ("id", "question", "answer")
        }
        for metric, result in (fields.get("results") or {}).items():
            columns[f"{metric}_reason"] = result.get("reason") or ""
        columns["problem"] = fields.get("problem") or ""

        added = {
            "cut": +n_cut,
            "journey": journey_data(journey_of(row)),
            "answer": _answer_data(fields),
            "claims": claims,
            "formulas": [name for name, cell in columns.items() if is_formula(cell)],
            "advice": diagnosis.advice,
            "use": _use_data(row.sample, fields),
            "texts": digest_of_texts(row.sample),
        }
        # both are objects of JSON: the fields of the second follow those of the first
        yield f"{text[:-1]},{_plain_json(added)[1:]}\n"


def _answer_data(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """How the answer of a row is shown: its sentences, with what the judge says of each.

    Returns:
        ``sentences``: each with its ``parts``, a text and whether the judge calls it
        unsupported, and the ``passage`` that the judge names; ``elsewhere``: unsupported
        claims that do not stand in the answer word for word. None without a verdict.
    """
    sample = fields.get("sample") or {}
    answer = sample.get("answer") or ""
    evidence = _evidence_of_adherence(fields)
    if not answer or evidence is None:
        return None
    claims = evidence.get("unsupported") or []
    claim_spans = [_span_of(claim, answer) for claim in claims]
    judged = evidence.get("sentences") or []
    sentence_spans = [_span_of(one["sentence"], answer) for one in judged]
    spans = [span for span in (*claim_spans, *sentence_spans) if span is not None]
    edges = sorted({0, len(answer), *chain.from_iterable(spans)})
    sentences: list[dict[str, Any]] = []
    last: int | None = None
    for start, end in pairwise(edges):
        place = _holder(sentence_spans, start, end)
        if not sentences or place is None or place != last:
            passage = None if place is None else _passage_of(judged[place], sample)
            sentences.append({"parts": [], "passage": passage})
        is_unsupported = _holder(claim_spans, start, end) is not None
        sentences[-1]["parts"].append([answer[start:end], is_unsupported])
        last = place
    elsewhere = [
        claim for claim, span in zip(claims, claim_spans, strict=True) if span is None
    ]
    return {"sentences": sentences, "elsewhere": elsewhere}


def _use_data(
    sample: Sample | None, fields: Mapping[str, Any]
) -> dict[str, Any] | None:
    """What was measured of the passages of a row; None where nothing was.

    Returns:
        ``passages``: for each the sentences of the answer without it, each with whether
        the answer with all lacks it; null where there is no such answer, or its effect is
        0. ``claims``: each claim
        that the judge calls unsupported and whose origin can be told, with the passages,
        from 1, that it left the answer with; [] for one that came from no passage.
    """
    use = sample and sample.use
    if not sample or not use or use.why_not is not None:
        return None
    known = set().union(*map(_sentences, use.answers))
    passages: list[list[tuple[str, bool]] | None] = []
    for each in use.passages:
        if each.answer is None or each.effect == 0:
            passages.append(None)
            continue
        sentences = split_sentences(cut(each.answer))
        passages.append(
            [(words, canonical_words(words) not in known) for words in sentences]
        )
    question = sample.standalone_question or sample.question or ""
    claims = []
    for claim in (_evidence_of_adherence(fields) or {}).get("unsupported") or []:
        behind = passages_behind(claim, use, question)
        if behind is not None:
            claims.append([claim, [place + 1 for place in behind]])
    return {"passages": passages, "claims": claims}


def passages_behind(
    claim: str, use: MeasuredUse, question: str
) -> tuple[int, ...] | None:
    """Return the passages, from 0, without which a claim leaves the answer.

    A claim stays where its whole sentence does, word for word. It leaves where none of
    its terms stays, those of the question aside. What is between, such as a denial,
    tells nothing.

    Returns:
        () for a claim that stays without any passage: it comes from the rest of the
        prompt or the model itself.
        None if its origin cannot be told, as where the repeats differ in it.
    """
    words = canonical_words(claim)
    terms = set(content_terms(claim)) - set(content_terms(question))
    answers = [_sentences(answer) for answer in use.answers]
    # the sentences that hold the claim word for word
    holding = set()
    for sentence in set().union(*answers):
        starts = range(len(sentence) - len(words) + 1)
        if any(sentence[start : start + len(words)] == words for start in starts):
            holding.add(sentence)
    if not words or not answers or not all(holding & each for each in answers):
        return None

    def has_left(answer: str) -> bool | None:
        """Whether the claim is not in an answer; None: it cannot be told."""
        if holding & _sentences(answer):
            return False
        return True if terms and terms.isdisjoint(content_terms(answer)) else None

    outcomes = {
        place: has_left(each.answer or "")
        for place, each in enumerate(use.passages)
        if each.verdict == "used"
    }
    has_left_all = has_left(use.answer_without_any or "")
    if None in outcomes.values():
        return None
    behind = tuple(place for place, left in outcomes.items() if left)
    if behind:
        return None if has_left_all is False else behind
    is_redundant = any(each.verdict == "redundant" for each in use.passages)
    return () if has_left_all is False and not is_redundant else None


def _sentences(answer: str) -> set[tuple[str, ...]]:
    return set(map(canonical_words, split_sentences(answer)))


def _evidence_of_adherence(fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What the judge said of the answer's claims; None if nobody asked."""
    for result in (fields.get("results") or {}).values():
        evidence: Mapping[str, Any] = result.get("evidence") or {}
        if evidence.get("kind") == "context_adherence":
            return evidence
    return None


def _span_of(words: str, text: str) -> tuple[int, int] | None:
    """Where words stand in a text; None if they do not stand there."""
    start = text.find(words) if words else -1
    return None if start < 0 else (start, start + len(words))


def _holder(
    spans: Sequence[tuple[int, int] | None], start: int, end: int
) -> int | None:
    """The index of the first span that holds a part of a text."""
    for place, span in enumerate(spans):
        if span is not None and span[0] <= start and end <= span[1]:
            return place
    return None


def _passage_of(judged: Mapping[str, Any], sample: Mapping[str, Any]) -> dict[str, Any]:
    """The passage that the judge names for a sentence, in words, and where it stands."""
    lost = dict.fromkeys((*judged.get("uncovered", ()), *judged.get("numbers", ())))
    found = f"{judged['coverage']:.0%} of its terms found"
    if lost:
        found += f"; not found: {', '.join(lost)}"
    words = judged.get("evidence")
    if not words:
        return {"note": f"The judge found no passage: {found}."}
    rank = judged.get("rank") or 0
    contexts = sample.get("contexts") or []
    text = contexts[rank - 1].get("text", "") if 0 < rank <= len(contexts) else ""
    span = _span_of(words, text)
    return {
        "note": f"The judge's passage, in #{rank}: {found}.",
        "rank": rank,
        "words": words,
        # as a browser counts
        "span": span and [len(text[:end].encode("utf-16-le")) // 2 for end in span],
    }


def _data_of(row: SampleResult, n_cut: Counter[str]) -> tuple[str, dict[str, Any]]:
    """Return a row as JSON and as its data, its long texts cut.

    Metadata may hold anything, such as numbers of numpy or half a character. pydantic
    refuses these, and they are written as in a results file.

    Args:
        row: The row.
        n_cut: Gets the number of characters that were cut, by where they stood.
    """
    fields: Any
    try:
        text = row.model_dump_json(exclude_none=True, warnings="error")
        fields = json.loads(text)
        if len(text.encode()) <= LONGEST:
            return text, fields
    except (ValueError, TypeError):
        fields = json_data(row)
    _shorten(fields, "", n_cut)
    return _plain_json(fields), fields


def pack_lines(lines: Iterable[str]) -> str:
    """Pack lines as the page carries them: deflated, in base64; as many as it holds."""
    packer = compressobj(_COMPRESSION)
    content = bytearray()
    for line in lines:
        content += packer.compress(line.encode())
        if len(content) > LARGEST_ROWS:
            break
    content += packer.flush()
    return b64encode(content).decode()


def _as_shown(row: SampleResult) -> SampleResult:
    """Return the row without a kept prompt, and without items of earlier turns.

    The rows of the earlier turns show these items. Example: in turn 3 the calls of the
    turns 1 and 2 stay, with no items.
    """
    sample = row.sample
    if sample is not None and sample.capture is not None and sample.capture.prompt:
        notes = sample.capture.model_copy(update={"prompt": None})
        sample = sample.model_copy(update={"capture": notes})
        row = row.model_copy(update={"sample": sample})
    if sample is None or sample.ledger is None:
        return row
    ledger = sample.ledger
    calls = [
        call if call.turn == ledger.turn else call.model_copy(update={"items": ()})
        for call in ledger.calls
    ]
    shown_ledger = ledger.model_copy(update={"calls": tuple(calls)})
    shown_sample = sample.model_copy(update={"ledger": shown_ledger})
    return row.model_copy(update={"sample": shown_sample})


def _shorten(fields: dict[str, Any], path: str, n_cut: Counter[str]) -> None:
    """Cut the long texts of the data of a row, in place.

    Args:
        fields: The data, or a part of it.
        path: Where the part stands, such as "sample.contexts 2"; "" for the whole row.
        n_cut: Gets the number of characters that were cut, by path.
    """
    is_metadata = path.startswith("sample.") and ".metadata" in path
    prefix = f"{path}." if path else ""
    for name, value in list(fields.items()):
        fields[name] = _shortened(value, f"{prefix}{name[:60]}", n_cut)
        if is_metadata and _beginning(name) != name:
            # names in metadata are the caller's, and may be as long as texts
            fields[cut(name)] = fields.pop(name)


def _shortened(value: Any, path: str, n_cut: Counter[str]) -> Any:
    """A text that is not too long; the items of a list and of an object likewise."""
    if isinstance(value, str):
        text = _beginning(value)
        if text != value:
            n_cut[path] += len(value) - len(text)
        return text
    if isinstance(value, list):
        return [
            _shortened(item, f"{path} {number}", n_cut)
            for number, item in enumerate(value, start=1)
        ]
    if isinstance(value, dict):
        _shorten(value, path, n_cut)
    return value


def json_text(value: object) -> str:
    """JSON without any character that could end or open an element of the page."""
    return _plain_json(value).translate(_ESCAPES)


def _plain_json(value: object) -> str:
    """JSON in one line, without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
