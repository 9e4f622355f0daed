"""Metrics: pure plans that ask typed questions and turn the replies into scores with evidence. No I/O."""
