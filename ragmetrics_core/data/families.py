"""Families of models: a judge tends to favour what a model of its own family wrote."""

from __future__ import annotations

import re

FAMILIES = {
    "OpenAI": r"gpt|chatgpt|\bo[1345]\b|davinci",
    "Anthropic": r"claude",
    "Google": r"gemini|gemma|palm",
    "Meta": r"llama(?!-?index|cpp|\.cpp)",
    "Mistral": r"mistral|mixtral|ministral|codestral",
    "Alibaba": r"qwen|qwq",
    "DeepSeek": r"deepseek",
    "Cohere": r"command-?[ar]\b|cohere",
    "Microsoft": r"\bphi-?\d",
    "xAI": r"grok",
}
"""Families of models by how their names are written."""


def family(model: str) -> str:
    """The family that a model's name tells: a known one, else the first word of the name without its provider.

    Example:
        >>> family("openai/gpt-4o-mini"), family("azure/o3"), family("ollama/llama3.1"), family("local/mine-7b")
        ('OpenAI', 'OpenAI', 'Meta', 'mine')
    """
    name = model.casefold()
    word = re.match(r"[a-z]*", name.rpartition("/")[2])
    return next((known for known, pattern in FAMILIES.items() if re.search(pattern, name)), word[0] if word else "")
