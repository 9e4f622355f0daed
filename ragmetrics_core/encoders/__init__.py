"""Judges that are encoders on this machine: sequence classifiers of Hugging Face, without a key and a network."""

from ragmetrics_core.encoders.judge import EncoderJudge as EncoderJudge
