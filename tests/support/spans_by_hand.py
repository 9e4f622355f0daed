"""Spans of OTLP made by hand."""

from typing import Any

QUESTION, ANSWER = "When was the gate built?", "It was built in 1632."
GATE, MILL = "The gate was built in 1632.", "The mill lies by the river Lahn."
PROMPT = f"Answer from this:\n{GATE}\n{MILL}\nQuestion: {QUESTION}"
Told = dict[str, Any]


def span(
    name: str,
    parent: str = "",
    start: int = 1,
    end: int = 100,
    trace: str = "a",
    **attributes: Any,
) -> Told:
    """A span of OTLP; a name of an attribute has two underscores for a dot."""
    return {
        "traceId": trace * 32,
        "spanId": name.encode().hex().ljust(16, "0")[:16],
        "parentSpanId": parent and parent.encode().hex().ljust(16, "0")[:16],
        "name": name,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(end),
        "attributes": [
            {"key": key.replace("__", "."), "value": value(one)}
            for key, one in attributes.items()
        ],
    }


def value(one: Any) -> Told:
    kinds = {str: "stringValue", float: "doubleValue", bool: "boolValue"}
    return {"intValue": str(one)} if type(one) is int else {kinds[type(one)]: one}


def otlp(*spans: Told, scope: str = "") -> Told:
    return {
        "resourceSpans": [
            {"scopeSpans": [{"scope": {"name": scope}, "spans": list(spans)}]}
        ]
    }


def openinference(
    trace: str = "a", start: int = 1, question: str = QUESTION
) -> list[Told]:
    """A chain with a retriever and a model."""

    def one(
        name: str, parent: str, begin: int, end: int, kind: str, **attributes: Any
    ) -> Told:
        return span(
            name,
            parent,
            start + begin,
            start + end,
            trace,
            openinference__span__kind=kind,
            **attributes,
        )

    prompt = PROMPT.replace(QUESTION, question)
    return [
        one("chain", "", 0, 90, "CHAIN", input__value=question, output__value=ANSWER),
        one(
            *("search", "chain", 10, 20, "RETRIEVER"),
            input__value=question,
            **{
                "retrieval.documents.0.document.id": "gate",
                "retrieval.documents.0.document.content": GATE,
                "retrieval.documents.0.document.score": 0.9,
                "retrieval.documents.1.document.id": "mill",
                "retrieval.documents.1.document.content": MILL,
            },
        ),
        one(
            *("model", "chain", 30, 80, "LLM"),
            **{
                "llm.input_messages.0.message.role": "user",
                "llm.input_messages.0.message.content": prompt,
            },
            **{
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.content": ANSWER,
            },
            llm__model_name="small",
        ),
    ]
