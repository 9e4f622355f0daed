"""Judges of single claims on this machine: sequence classifiers of Hugging Face."""

from ragmetrics_core.encoders.encoder_judge import EncoderJudge as EncoderJudge
