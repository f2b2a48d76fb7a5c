"""Evaluation over the exact full ranking by a named protocol, and tests of whether a difference is significant."""

from tastespace.evaluation._evaluator import evaluate
from tastespace.evaluation._planted_interests import interest_coverage, taste_recovery
from tastespace.evaluation._taste_metrics import TASTE_METRICS
from tastespace.evaluation.cross_validation import CrossValidation, cross_validate
from tastespace.evaluation.interest_use import interest_use
from tastespace.evaluation.metrics import METRICS
from tastespace.evaluation.protocols import FULL, PAPER, Protocol
from tastespace.evaluation.report import Report, over_seeds
from tastespace.evaluation.shelf_checks import shelf_checks
from tastespace.evaluation.significance import Comparison, compare
from tastespace.evaluation.user_diversity import preference_diversity

__all__ = [
    "FULL",
    "METRICS",
    "PAPER",
    "TASTE_METRICS",
    "Comparison",
    "CrossValidation",
    "Protocol",
    "Report",
    "compare",
    "cross_validate",
    "evaluate",
    "interest_coverage",
    "interest_use",
    "over_seeds",
    "preference_diversity",
    "shelf_checks",
    "taste_recovery",
]
