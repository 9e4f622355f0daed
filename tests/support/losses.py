"""Which stages of a journey lost something."""

from ragmetrics_core.reporting.journey import Journey, Loss, Unit


def losses(journey: Journey, unit: Unit = "facts") -> set[Loss]:
    """Return the kinds of loss by which facts, or passages, were lost."""
    return {stage.loss for stage in journey.stages if stage.unit == unit and stage.lost}
