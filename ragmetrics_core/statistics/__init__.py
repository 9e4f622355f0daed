"""Pure functions on numbers: intervals, paired differences, clusters, agreement, calibration."""
