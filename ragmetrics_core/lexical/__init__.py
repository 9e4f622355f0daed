"""The embedded judge: word overlap, no model, no network."""

from ragmetrics_core.lexical.judge import LexicalJudge

__all__ = ["LexicalJudge"]
