"""Judges of single claims: encoders on this machine, and guards behind an endpoint.

Encoders are sequence classifiers of Hugging Face, without a key and a network. Guards
are chat models that give one word.
"""

from ragmetrics_core.encoders.encoder_judge import EncoderJudge as EncoderJudge
from ragmetrics_core.encoders.guard_judge import GuardJudge as GuardJudge
