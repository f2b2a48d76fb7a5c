"""The metrics, one small function each, from a block of ranked lists to one value per user.

A metric returns NaN for users who do not count for it; its value is the mean over the others. Accuracy is a fraction
between 0 and 1, 1 the best. Diversity, novelty and exposure are in their own units; `METRICS` has the unit and the
range of each.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.checks import is_whole
from tastespace.errors import Argument, ParameterError, nearest
from tastespace.evaluation import _taste_metrics
from tastespace.evaluation._inputs import MetricInputs
from tastespace.ranking.blocks import Block
from tastespace.training.samplers import n_beta

Values = NDArray[np.float64]
PerUser = Callable[[Block, MetricInputs, Any], Values]


@dataclass(frozen=True)
class Metric:
    """A family of metrics: ``P`` stands for P@3, P@5, ..."""

    name: str
    compute: PerUser | None
    """One value per user of the block; None for metrics of the catalog as a whole."""
    at_k: bool
    doc: str
    unit: str = "fraction"
    """``"fraction"`` for accuracy, which lies between 0 and 1; any other metric names its unit."""
    range: str = "0 to 1"
    needs: Literal["", "vectors", "interests", "reasons", "categories"] = ""
    """Inputs that it cannot be computed without."""
    lower_is_better: bool = False
    from_exposure: Callable[[NDArray[np.int64]], float] | None = None
    """Function of the number of lists that show each item, for metrics of the catalog."""

    @property
    def is_accuracy(self) -> bool:
        """True if it measures the ranks of test items: a user who gets no list has 0."""
        return self.unit == "fraction"


def _for_eligible(block: Block, inputs: MetricInputs, k: int | None, values: Values) -> Values:
    """``values``, but NaN for users with fewer test items than the protocol asks for."""
    n_test = block.n_test + inputs.n_unknown[block.users]
    return np.where(n_test >= inputs.protocol.required_test_items(k), values, np.nan)


def _sum(block: Block, weights: NDArray[Any]) -> Values:
    """Sum over each user's test items."""
    totals: Values = np.bincount(block.owner, weights=weights, minlength=len(block.users)).astype(np.float64)
    return totals


def _n_test(block: Block, inputs: MetricInputs) -> NDArray[np.int64]:
    return np.maximum(1, block.n_test + inputs.n_unknown[block.users])


def hits(block: Block, k: int) -> Values:
    """Test items among the first k."""
    return _sum(block, block.test_ranks[:, 0] <= k)


def precision(block: Block, inputs: MetricInputs, k: int) -> Values:
    """Hits among the first k, divided by k: 0 to 1."""
    return _for_eligible(block, inputs, k, hits(block, k) / k)


def recall(block: Block, inputs: MetricInputs, k: int) -> Values:
    """Hits among the first k, divided by the number of test items: 0 to 1."""
    return _for_eligible(block, inputs, k, hits(block, k) / _n_test(block, inputs))


def hit_rate(block: Block, inputs: MetricInputs, k: int) -> Values:
    """1 if there is a hit among the first k, else 0."""
    return _for_eligible(block, inputs, k, (hits(block, k) > 0).astype(np.float64))


def ndcg(block: Block, inputs: MetricInputs, k: int) -> Values:
    """Discounted gain 1 / log2(rank + 1) of the hits among the first k, divided by the ideal list's: 0 to 1."""
    rank = block.test_ranks[:, 0]
    gain = _sum(block, np.where(rank <= k, 1.0 / np.log2(rank + 1.0), 0.0))
    ideal = np.cumsum(1.0 / np.log2(np.arange(k) + 2.0))
    best = k if inputs.protocol.ideal_uses_all_k else np.minimum(k, _n_test(block, inputs))
    return _for_eligible(block, inputs, k, gain / ideal[np.asarray(best) - 1])


def average_precision(block: Block, inputs: MetricInputs, _: None) -> Values:
    """Precision at each hit of the whole ranking, summed and divided by the number of test items: 0 to 1."""
    starts = np.cumsum(block.n_test) - block.n_test
    nth_hit = np.arange(len(block.owner)) - np.repeat(starts, block.n_test) + 1
    return _for_eligible(block, inputs, None, _sum(block, nth_hit / block.sorted_ranks) / _n_test(block, inputs))


def reciprocal_rank(block: Block, inputs: MetricInputs, _: None) -> Values:
    """1 / rank of the first hit of the whole ranking: 0 to 1."""
    has_test = block.n_test > 0
    starts = np.cumsum(block.n_test) - block.n_test
    reciprocal = np.zeros(len(block.users))
    reciprocal[has_test] = 1.0 / block.sorted_ranks[starts[has_test]]
    return _for_eligible(block, inputs, None, reciprocal)


def sum_of_reciprocal_ranks(block: Block, inputs: MetricInputs, _: None) -> Values:
    """The sum of 1 / rank over all test items: 0 or more."""
    return _for_eligible(block, inputs, None, _sum(block, 1.0 / block.test_ranks[:, 0]))


def _n_negatives(block: Block, inputs: MetricInputs) -> NDArray[np.int64]:
    return inputs.train.n_items - inputs.n_excluded[block.users] - block.n_test


def auc(block: Block, inputs: MetricInputs, _: None) -> Values:
    """Share of (test item, negative) pairs in the right order, 0 to 1; a tie counts one half."""
    n_negatives = _n_negatives(block, inputs).astype(np.float64)
    wrong = _sum(block, block.test_ranks[:, 1] + 0.5 * block.test_ranks[:, 2])
    with np.errstate(invalid="ignore", divide="ignore"):
        share = 1.0 - wrong / (block.n_test * n_negatives)
    found = block.n_test / _n_test(block, inputs)  # items that are not in the model are below all negatives
    return _for_eligible(
        block, inputs, None, np.where(block.n_test == 0, np.where(n_negatives > 0, 0.0, np.nan), share) * found
    )


def opauc(block: Block, inputs: MetricInputs, beta: float) -> Values:
    """One-way partial AUC (Eq. 4): AUC against the N_beta highest-scored negatives only, 0 to 1; a tie is correct."""
    n_negatives = _n_negatives(block, inputs)
    n_hard = np.where(n_negatives > 0, n_beta(np.maximum(n_negatives, 1), beta), 0)
    wrong = _sum(block, np.minimum(block.test_ranks[:, 1], n_hard[block.owner]))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = 1.0 - wrong / (block.n_test * n_hard.astype(np.float64))
    found = block.n_test / _n_test(block, inputs)
    return _for_eligible(
        block, inputs, None, np.where(block.n_test == 0, np.where(n_hard > 0, 0.0, np.nan), share) * found
    )


def max_div(block: Block, inputs: MetricInputs, k: int) -> Values:
    """Sum of squared distances over ordered pairs of the first k items: 0 or more."""
    vectors = inputs.require_item_vectors("MaxDiv")
    return _native.list_pair_distances(block.top, vectors, np.array([k], dtype=np.int64), inputs.threads)[:, 0]


def relative_max_div(block: Block, inputs: MetricInputs, k: int) -> Values:
    """Mean squared distance of the first k items, as a multiple of that of two items of the catalog: no scale."""
    vectors = inputs.require_item_vectors("RelativeMaxDiv").astype(np.float64)
    mean, n = vectors.mean(axis=0), len(vectors)
    of_catalog = 2 * (np.square(vectors).sum() / n - mean @ mean) * n / max(1, n - 1)
    return max_div(block, inputs, k) / max(k * (k - 1) * of_catalog, np.finfo(np.float64).tiny)


def ils(block: Block, inputs: MetricInputs, k: int) -> Values:
    """Half of MaxDiv, each unordered pair once: 0 or more. Despite the name a larger value is more diverse."""
    vectors = inputs.require_item_vectors("ILS")
    return _native.list_pair_distances(block.top, vectors, np.array([k], dtype=np.int64), inputs.threads)[:, 0] / 2


def novelty(block: Block, inputs: MetricInputs, k: int) -> Values:
    """Mean self-information of the first k items, in bits: 0 or more."""
    top = block.top[:, :k]
    shown = top >= 0
    bits = np.where(shown, inputs.self_information[np.maximum(top, 0)], 0.0)
    n_shown = shown.sum(axis=1)
    return np.where(n_shown > 0, bits.sum(axis=1) / np.maximum(n_shown, 1), np.nan)


def category_average_precision(block: Block, inputs: MetricInputs, category: int) -> Values:
    """Average precision, 0 to 1, over the user's test items of one category; users without one are left out."""
    in_category = inputs.membership[block.test_items, category]
    order = np.lexsort((block.test_ranks[:, 0], block.owner))
    order = order[in_category[order]]
    owner, rank = block.owner[order], block.test_ranks[order, 0]
    total = np.bincount(owner, minlength=len(block.users))
    starts = np.cumsum(total) - total
    nth_hit = np.arange(len(rank)) - starts[owner] + 1
    gained = np.bincount(owner, weights=nth_hit / rank, minlength=len(block.users))
    return np.where(total > 0, gained / np.maximum(total, 1), np.nan)


def coverage(exposure: NDArray[np.int64]) -> float:
    """Share of the catalog that appears in at least one list, 0 to 1."""
    return float(np.mean(exposure > 0))


def gini(exposure: NDArray[np.int64]) -> float:
    """Gini index of how often items are shown: 0 where all are shown equally, towards 1 where few are."""
    ordered = np.sort(exposure).astype(np.float64)
    total = ordered.sum()
    if total == 0:
        return float("nan")
    n = len(ordered)
    return float(((2 * np.arange(1, n + 1) - n - 1) * ordered).sum() / (n * total))


METRICS = {
    metric.name: metric
    for metric in (
        Metric("P", precision, True, "precision"),
        Metric("R", recall, True, "recall"),
        Metric("NDCG", ndcg, True, "normalized discounted cumulative gain"),
        Metric("MAP", average_precision, False, "mean average precision over the whole ranking"),
        Metric("MRR", reciprocal_rank, False, "mean reciprocal rank of the first hit"),
        Metric("SumRR", sum_of_reciprocal_ranks, False, "sum of the reciprocal ranks of all hits, the paper's formula",
               unit="sum of reciprocals", range="0 or more"),
        Metric("HitRate", hit_rate, True, "share of users with a hit"),
        Metric("AUC", auc, False, "area under the ROC curve"),
        Metric("OPAUC", opauc, False, "one-way partial AUC, written OPAUC(0.01)"),
        Metric("MaxDiv", max_div, True, "squared distances over ordered pairs of a list",
               unit="squared distance", range="0 or more", needs="vectors"),
        Metric("ILS", ils, True, "squared distances over unordered pairs of a list",
               unit="squared distance", range="0 or more", needs="vectors"),
        Metric("RelativeMaxDiv", relative_max_div, True, "squared distances within a list, next to the catalog's",
               unit="multiple of the catalog's", range="0 or more", needs="vectors"),
        Metric("Coverage", None, True, "items in any list", unit="share of the catalog", from_exposure=coverage),
        Metric("CategoryILD", _taste_metrics.category_ild, True, "how much the categories of a list's items differ",
               unit="Jaccard distance", needs="categories"),
        Metric("Novelty", novelty, True, "self-information of the items", unit="bits", range="0 or more"),
        Metric("Gini", None, True, "inequality of the items' exposure",
               unit="Gini index", from_exposure=gini, lower_is_better=True),
        Metric("MinorityRecall", _taste_metrics.minority_recall, True, "recall outside the user's main category",
               needs="categories"),
        Metric("SubtopicRecall", _taste_metrics.subtopic_recall, True, "categories of the test items that hits have",
               needs="categories"),
        Metric("AlphaNDCG", _taste_metrics.alpha_ndcg, True, "NDCG in which further hits of a category gain less",
               needs="categories"),
        Metric("CalibrationKL", _taste_metrics.calibration_kl, True,
               "Kullback-Leibler divergence between the categories of history and list",
               unit="nats", range="0 to 4.61", needs="categories", lower_is_better=True),
        Metric("CalibrationJS", _taste_metrics.calibration_js, True,
               "Jensen-Shannon divergence between the categories of history and list",
               unit="bits", needs="categories", lower_is_better=True),
        Metric("TasteAlphaNDCG", _taste_metrics.taste_alpha_ndcg, True,
               "NDCG in which further hits of one of the user's interests gain less", needs="interests"),
        Metric("InterestCoverage", _taste_metrics.interest_coverage_of_list, True,
               "the user's interests that an item of the list belongs to",
               unit="share of the interests", needs="interests"),
        Metric("EffectiveInterests", _taste_metrics.effective_interests, False,
               "effective number of interests that the user's past items belong to",
               unit="interests", range="1 or more", needs="interests"),
        Metric("DeadInterests", _taste_metrics.dead_interests, False,
               "the user's interests that no past item belongs to",
               unit="share of the interests", needs="interests", lower_is_better=True),
        Metric("CollapsedInterests", _taste_metrics.collapsed_interests, False,
               "users whose interests are nearly equal",
               unit="share of the users", needs="interests", lower_is_better=True),
        Metric("TruthOfReasons", _taste_metrics.truth_of_reasons, True,
               "items on a shelf whose two strongest past items belong to its taste, of 200 users",
               unit="share of the items", needs="reasons"),
        Metric("StableNames", _taste_metrics.stable_names, False,
               "shelves that are called the same with 5, 8 and 20 items, of 200 users",
               unit="share of the shelves", needs="interests"),
        Metric("CategoryMAP", category_average_precision, False, "MAP[c] for each category c", needs="categories"),
    )
}  # fmt: skip
DEFAULT = ("P", "R", "NDCG", "MAP", "MRR")


@dataclass(frozen=True)
class MetricColumn:
    """One column of a report: a metric with its k or beta."""

    label: str
    metric: Metric
    parameter: int | float | None


_LABEL = re.compile(r"^(?P<name>[A-Za-z]+)(?:@(?P<k>\d+)|\((?P<beta>[^)]+)\))?$")


def columns_for(
    wanted: list[str], cutoffs: tuple[int, ...], categories: Callable[[], list[str]] = list
) -> list[MetricColumn]:
    """Expand names such as ``"P"``, ``"NDCG@10"`` and ``"OPAUC(0.01)"`` into the report's columns.

    Metrics at a k come first, grouped by k as in the paper's tables. ``categories`` names the item categories, for
    ``"CategoryMAP"``.

    >>> [column.label for column in columns_for(["P", "MAP", "R@20"], (3, 5))]
    ['P@3', 'P@5', 'R@20', 'MAP']
    """
    at_k: list[MetricColumn] = []
    rest: list[MetricColumn] = []
    for label in wanted:
        found = _LABEL.match(str(label))
        metric = METRICS.get(found["name"]) if found else None
        if found is None or metric is None:
            close = nearest(str(label).partition("@")[0], METRICS)
            raise ParameterError(f"no metric {label!r}; there are {', '.join(METRICS)}.{close}")
        if metric.name == "OPAUC":
            rest.append(MetricColumn(label, metric, _beta(label, found["beta"])))
        elif metric.name == "CategoryMAP" and label == metric.name:
            names = categories()
            if not names:
                raise ParameterError(f"metric {label!r}: no item has a category.")
            rest += [MetricColumn(f"MAP[{name}]", metric, number) for number, name in enumerate(names)]
        elif metric.at_k and not found["beta"]:
            ks = (int(found["k"]),) if found["k"] else cutoffs
            at_k += [MetricColumn(f"{metric.name}@{k}", metric, check_cutoff(k)) for k in ks]
        elif found["k"] or found["beta"]:
            raise ParameterError(f"metric {label!r}: {metric.name} takes {'a k' if metric.at_k else 'no k'}.")
        else:
            rest.append(MetricColumn(label, metric, None))
    ordered = sorted(at_k, key=lambda column: column.parameter or 0)
    return list({column.label: column for column in ordered + rest}.values())


def check_cutoff(k: Any) -> int:
    """``k`` as an int; raise unless it is a whole number of at least 1."""
    if not is_whole(k):
        raise ParameterError(Argument("k", k), ": expected a length of list, 1 or more.")
    return int(k)


def _beta(label: str, text: str | None) -> float:
    try:
        beta = float(text or "")
    except ValueError:
        beta = float("nan")
    if not 0 < beta <= 1:
        raise ParameterError(f"metric {label!r}: expected OPAUC(beta) with beta in (0, 1], such as OPAUC(0.01).")
    return beta
