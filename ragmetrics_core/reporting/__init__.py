"""Reports: what a run measured, how sure the numbers are, and what looks risky.

Nothing here asks a judge.
"""
