"""Holds samples of a trace against those that an adapter made of the same run."""

import contextlib
import json
from typing import Any

WEAK = ("inferred", "incomplete")
Told = dict[str, Any]


def held(sample: Told) -> Told:
    """What is compared of a sample, as JSON; a structured answer as what it stands for."""
    answer = sample["answer"]
    with contextlib.suppress(TypeError, ValueError):
        answer = json.loads(answer)
    history = [[turn["role"], turn["content"]] for turn in sample["history"] or ()]
    documents = {
        name: [[one["id"], one["text"]] for one in sample[name] or ()]
        for name in ("contexts", "retrieved")
    }
    # which of two that began in the same microsecond was first is chance
    documents["retrieved"].sort(key=lambda pair: pair[1])
    notes = sample["capture"]
    is_doubted = notes["grade"] in WEAK
    return {
        "question": sample["question"],
        "history": history,
        "answer": answer,
        **documents,
        "is_doubted": is_doubted,
        "is_told": is_doubted or any("question" in said for said in notes["warnings"]),
    }


def verdict(ours: list[Told], theirs: list[Told]) -> str:
    """right, hedged, said or silent, of samples as ``held`` makes them.

    The order of the samples is left out: which run of a batch began first is chance,
    and each of two recorders that LangChain calls in threads may see another one first.
    """
    ours = sorted(ours, key=_asked_and_answered)
    theirs = sorted(theirs, key=_asked_and_answered)
    if len(ours) == len(theirs) and all(map(_are_same, ours, theirs)):
        pairs = zip(ours, theirs, strict=True)
        is_weaker = any(a["is_doubted"] > b["is_doubted"] for a, b in pairs)
        return "hedged" if is_weaker else "right"
    is_told = any(one["is_told"] for one in ours)
    return "said" if is_told or len(ours) < len(theirs) else "silent"


def _asked_and_answered(sample: Told) -> tuple[str, str]:
    return str(sample["question"]), str(sample["answer"])


def _are_same(ours: Told, theirs: Told) -> bool:
    """Equal, but for ids that no span holds, and texts by the same id.

    LlamaIndex's spans hold documents without the metadata that its adapter writes
    before their texts, with a blank line between.
    """
    if any(ours[name] != theirs[name] for name in ("question", "history", "answer")):
        return False
    if any(len(ours[name]) != len(theirs[name]) for name in ("contexts", "retrieved")):
        return False
    contexts = zip(ours["contexts"], theirs["contexts"], strict=True)
    retrieved = zip(ours["retrieved"], theirs["retrieved"], strict=True)
    return all(
        a_id in (None, b_id) and (a_text == b_text or b_text.endswith(f"\n\n{a_text}"))
        for (a_id, a_text), (b_id, b_text) in contexts
    ) and all(
        a_text == b_text if a_id is None else a_id == b_id
        for (a_id, a_text), (b_id, b_text) in retrieved
    )
