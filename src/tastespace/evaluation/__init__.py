"""Evaluation people can trust: exact full rankings under a named protocol, and honest comparisons."""

from tastespace.evaluation.comparison import Comparison, compare
from tastespace.evaluation.evaluator import evaluate
from tastespace.evaluation.metrics import METRICS
from tastespace.evaluation.preference import preference_diversity
from tastespace.evaluation.protocols import FULL, PAPER, Protocol
from tastespace.evaluation.report import Report, over_seeds

__all__ = [
    "FULL",
    "METRICS",
    "PAPER",
    "Comparison",
    "Protocol",
    "Report",
    "compare",
    "evaluate",
    "over_seeds",
    "preference_diversity",
]
