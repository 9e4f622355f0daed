"""Pure functions on numbers: intervals, agreement, calibration.

Others are on paired differences and clusters.
"""
