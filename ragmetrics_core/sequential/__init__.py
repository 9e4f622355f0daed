"""Runs that end as soon as their gates are decided.

Gates are asked one by one, and rows come in a drawn order.
"""
