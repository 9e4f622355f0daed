"""Demonstrations that run on this machine, without key and network."""
