"""The theory of the paper as code, to be evaluated and checked against; nothing is trained with it.

| of the paper | here |
| --- | --- |
| Eq. 4, OPAUC; its ``N_beta`` | `opauc`, `opauc_of_each`, `n_beta` |
| Proposition 1 | `hard_sampling_loss` equals `opauc_hinge_loss` at ``beta = U / n-`` |
| Theorem 1 and its ``N~`` | `generalization_bound`, `effective_sample_size` |
| Theorem 2 | `precision_lower_bound`, `recall_lower_bound` |
| Lemma 2 | `average_top_k` equals `average_top_k_dual` |
| Lemma 3 | `nested_hinge` equals `flat_hinge` |
| Theorem 3 | `differentiable_hard_sampling_loss` at its best is `hard_sampling_loss` |

Docstrings say where a statement needs more than the paper asks for.
"""

from tastespace.evaluation.theory._bounds import (
    effective_sample_size,
    generalization_bound,
    generalization_log10_failure,
    precision_lower_bound,
    recall_lower_bound,
)
from tastespace.evaluation.theory._hard_sampling import (
    average_top_k,
    average_top_k_dual,
    differentiable_hard_sampling_loss,
    flat_hinge,
    hard_sampling_loss,
    nested_hinge,
)
from tastespace.evaluation.theory._partial_auc import opauc, opauc_hinge_loss, opauc_of_each
from tastespace.training.samplers import n_beta

__all__ = [
    "average_top_k",
    "average_top_k_dual",
    "differentiable_hard_sampling_loss",
    "effective_sample_size",
    "flat_hinge",
    "generalization_bound",
    "generalization_log10_failure",
    "hard_sampling_loss",
    "n_beta",
    "nested_hinge",
    "opauc",
    "opauc_hinge_loss",
    "opauc_of_each",
    "precision_lower_bound",
    "recall_lower_bound",
]
