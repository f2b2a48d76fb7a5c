"""The estimators on real logs: two policies of a fashion shop with their propensities (Open Bandit Data, Saito 2021).

The logs are inside the package obp 0.4.1, which is not imported: `pip install --no-deps obp==0.4.1`.
"""

import os
from importlib.metadata import PackageNotFoundError, distribution

import numpy as np
import polars as pl
import pytest

from tastespace.online.estimators import ips, snips
from tastespace.online.statistics import wilson


@pytest.fixture(scope="module")
def logs():
    try:
        package = distribution("obp")
    except PackageNotFoundError:
        if os.environ.get("TASTESPACE_REQUIRE_EXTRAS") == "1":
            pytest.fail("obp is not installed, and TASTESPACE_REQUIRE_EXTRAS=1")
        pytest.skip("obp is not installed: pip install --no-deps obp==0.4.1")

    def read(policy, campaign):
        path = package.locate_file(f"obp/dataset/obd/{policy}/{campaign}/{campaign}.csv")
        return pl.read_csv(path, columns=["item_id", "position", "click", "propensity_score"])

    return {name: {policy: read(policy, name) for policy in ("bts", "random")} for name in ("all", "men", "women")}


def target_of(policy, items):
    """Probability of each shown item at its position under a policy that does not look at the person."""
    seen = policy.group_by("item_id", "position").len()
    seen = seen.with_columns(share=pl.col("len") / pl.col("len").sum().over("position"))
    return items.join(seen, on=["item_id", "position"], how="left")["share"].fill_null(0.0).to_numpy()


@pytest.mark.parametrize("campaign", ["all", "men", "women"])
def test_each_policy_is_worth_what_the_log_of_the_other_says(logs, campaign):
    bts, random = (logs[campaign][policy] for policy in ("bts", "random"))
    assert (len(bts), len(random)) == (10_000, 10_000)
    chance = random["propensity_score"].to_numpy()
    assert np.allclose(chance, 1 / random["item_id"].n_unique())
    for here, there, propensity, target in (
        (bts, random, bts["propensity_score"].to_numpy(), np.full(len(bts), chance[0])),
        (random, bts, chance, target_of(bts, random)),
    ):
        low, high = wilson(there["click"].sum(), len(there))  # the mean that the policy itself had
        for estimator in (ips, snips):
            found = estimator(here["click"].to_numpy(), propensity, target)
            assert found.low < high, (campaign, found)
            assert found.high > low, (campaign, found)
            assert 0 < found.value < 0.02
    assert (target / propensity).mean() == pytest.approx(1, abs=0.06)  # the mean weight of a log with all actions
