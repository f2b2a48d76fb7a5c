"""A simulated shop: are events attributed exactly, and does the report find the better of two models?

    python benchmarks/online.py [--sessions 10000] [--repetitions 200] [--looks 40]
    python benchmarks/online.py --open-bandit     # estimators on the logs inside obp 0.4.1 (pip install --no-deps)

People have planted tastes of unequal weight (`synthetic.multi_interest`). They click an item with a probability that
falls with its rank and is high where it belongs to one of their tastes. Two models are fitted: EASE to all of the data
and to a small part of it, so that one gives better lists.

1. Attribution: a server with both models as arms and with exploration answers `--sessions` requests. Clicks and
   purchases come back with the ids of the answers, among them such as belong nowhere. What `tastespace.online` finds is
   compared with what was done.
2. Decisions: `--repetitions` experiments of `--sessions` sessions, with other clicks, other sessions and another
   assignment each, evaluated by the function that the report uses; looked at `--looks` times, from the first sessions
   on, and ended at the first difference. A/A experiments (both arms the same model) say how often that is wrong.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

K = 10
EXAMINED = 1 / np.log2(np.arange(2, K + 2))  # how often a place is looked at
WANTED, OTHER, BOUGHT = 0.12, 0.01, 0.3


def shop() -> tuple[Any, Any, Any]:
    """The town, and a good and a worse model."""
    import tastespace as ts

    town = ts.synthetic.multi_interest(n_users=3_000, n_items=600, n_interactions=90_000, seed=1)
    data = town.interactions
    part = np.random.default_rng(0).random(data.n_interactions) < 0.1
    return town, ts.EASE().fit(data), ts.EASE().fit(data.subset(part | first_of_each(data)))


def first_of_each(data: Any) -> np.ndarray:
    """The first interaction of each user, so that a small part has all users."""
    first = np.zeros(data.n_interactions, dtype=bool)
    first[data.offsets[:-1][data.user_counts > 0]] = True
    return first


def wants(town: Any) -> np.ndarray:
    """Which items belong to the tastes of each user, shape ``(n_users, n_items)``, by the weight of the taste."""
    data = town.interactions
    found = np.zeros((data.n_users, data.n_items))
    for user in range(data.n_users):
        at = slice(*town.interest_offsets[user : user + 2])
        for category, weight in zip(town.interest_categories[at], town.interest_weights[at], strict=True):
            found[user, town.item_category == category] = np.sqrt(weight)
    return found


def click_probabilities(model: Any, want: np.ndarray) -> np.ndarray:
    """Of each place of each user's list, shape ``(n_users, K)``."""
    n_users = len(want)
    items = np.asarray(model.recommend_indices(np.arange(n_users), k=K)[0]).reshape(n_users, K)
    return EXAMINED * (OTHER + WANTED * want[np.arange(n_users)[:, None], items])


# ---- attribution -----------------------------------------------------------------------------------------------------


def attribution(town: Any, good: Any, worse: Any, n: int) -> None:
    from starlette.testclient import TestClient

    from tastespace.online.attribution import attribute
    from tastespace.online.experiments import Arm
    from tastespace.serve.app import create_app
    from tastespace.serve.settings import ServerSettings

    rng, want, start = np.random.default_rng(7), wants(town), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        arms = []
        for name, model in (("good", good), ("worse", worse)):
            model.save(Path(folder) / f"{name}.model")
            arms.append(Arm(name, Path(folder) / f"{name}.model", 0.5))
        settings = ServerSettings(arms[0].path, arms=tuple(arms), explore=0.1, watch_seconds=0.0)
        ledger: Counter[tuple[str, int, Any, str, bool]] = Counter()
        planted = Counter(dict.fromkeys(("attributed", "unknown", "other_user", "not_in_list", "repeated"), 0))
        with TestClient(create_app(settings)) as client:
            state, events = client.app.state, []
            for _ in range(n):
                user = int(rng.integers(0, town.interactions.n_users))
                answer = client.get(f"/v1/users/{user}/recommendations?k={K}&because=false").json()
                name, arm = answer["recommendation"], state.arm_of(str(user)).arm
                for one in answer["items"]:
                    p = EXAMINED[one["rank"] - 1] * (OTHER + WANTED * want[user, one["item"]])
                    if rng.random() >= p:
                        continue
                    kinds = ["click", "purchase"] if rng.random() < BOUGHT else ["click"]
                    for kind in kinds:
                        events.append({"user": user, "item": one["item"], "recommendation": name, "kind": kind})
                        ledger[arm, one["rank"], one["interest"], kind, True] += 1
                        planted["attributed"] += 1
                if rng.random() < 0.05:
                    listed = [one["item"] for one in answer["items"]]
                    bad = int(rng.integers(0, 4))
                    event = {"user": user, "item": listed[0], "recommendation": name, "kind": "like"}
                    if bad == 0:
                        event["recommendation"] = f"{name[:16]}{int(rng.integers(0, 2**40)):015x}"
                    elif bad == 1:
                        event["user"] = user + 100_000
                    elif bad == 2:
                        event["item"] = next(item for item in range(600) if item not in listed)
                    else:
                        planted["attributed"] += 1
                        ledger[arm, 1, answer["items"][0]["interest"], "like", True] += 1
                        events.append(dict(event))
                    events.append(event)
                    planted[("unknown", "other_user", "not_in_list", "repeated")[bad]] += 1
                if len(events) > 500:
                    assert client.post("/v1/feedback", json={"events": events}).status_code == 200
                    events = []
            assert client.post("/v1/feedback", json={"events": events}).status_code == 200
            state.impressions.write()
            found = attribute(state.store)
        joined = found.events.join(found.shown.select("number", "arm"), on="number").join(
            found.places.select("list", "rank", "taste"), on=["list", "rank"]
        )
        seen = Counter(
            (row["arm"], row["rank"], row["taste"], row["event"], True) for row in joined.iter_rows(named=True)
        )
        exact = seen == ledger and found.counts == dict(planted) and len(found.shown) == n
        print(f"attribution: {n:,} lists, {sum(planted.values()):,} events that name one, {dict(planted)}")
        print(f"             {'exact' if exact else f'WRONG: {found.counts}'} in {time.perf_counter() - start:.0f} s")


# ---- decisions -------------------------------------------------------------------------------------------------------


def decisions(town: Any, good: Any, worse: Any, n: int, repetitions: int, looks: int) -> None:
    want = wants(town)
    better, other = (click_probabilities(model, want) for model in (good, worse))
    rates = [float((1 - np.prod(1 - p, axis=1)).mean()) for p in (better, other)]
    print(f"decisions:   click-through of the models {rates[0]:.4f} and {rates[1]:.4f}; {repetitions} experiments of")
    print(f"             {n:,} sessions, looked at {looks} times and ended at the first difference")
    for name, arms in (("A/B", (other, better)), ("A/A", (better, better))):
        ended = [experiment(arms, n, looks, seed) for seed in range(repetitions)]
        right, wrong = sum(found > 0 for found, _ in ended), sum(found < 0 for found, _ in ended)
        at = [sessions for found, sessions in ended if found]
        early = f"after {np.median(at):,.0f} sessions in the median" if at else ""
        if name == "A/B":
            print(
                f"  A/B        the better one found in {right}, the other in {wrong}, none in {len(ended) - len(at)}; "
                f"{early}"
            )
        else:
            share = len(at) / repetitions
            print(
                f"  A/A        a difference found in {len(at)} of {repetitions} ({100 * share:.1f} %; "
                "stated: at most 5 %)"
            )


def experiment(arms: tuple[np.ndarray, np.ndarray], n: int, looks: int, seed: int) -> tuple[int, int]:
    """1 where the second arm is found better, -1 where the first is, 0; and after how many sessions."""
    from tastespace.online.experiments import assigned
    from tastespace.online.statistics import compare

    rng, n_users = np.random.default_rng(seed), len(arms[0])
    activity = rng.gamma(1.5, 1.0, n_users)  # some come often
    users = rng.choice(n_users, n, p=activity / activity.sum())
    arm = np.array([assigned(str(user), (0.5, 0.5), f"run {seed}") for user in range(n_users)])
    of_session = np.where(arm[users][:, None] == 1, arms[1][users], arms[0][users])
    mood = rng.gamma(6.0, 1 / 6, n_users)[users]  # some click more than others, whatever is shown
    clicked = (rng.random((n, K)) < np.minimum(of_session * mood[:, None], 1)).any(axis=1)
    for end in np.linspace(n / looks, n, looks).astype(int):
        lists = np.bincount(users[:end], minlength=n_users)
        clicks = np.bincount(users[:end], clicked[:end], minlength=n_users)
        found = compare((clicks[arm == 0], clicks[arm == 1]), (lists[arm == 0], lists[arm == 1]))
        if found.is_different:
            return (1 if found.difference > 0 else -1), int(end)
    return 0, n


# ---- real logs -------------------------------------------------------------------------------------------------------


def open_bandit() -> None:
    """Each policy's value by the log of the other, beside its own mean."""
    from importlib.metadata import distribution

    import polars as pl

    from tastespace.online.estimators import ips, snips
    from tastespace.online.statistics import wilson

    package = distribution("obp")
    columns = ["item_id", "position", "click", "propensity_score"]
    print("campaign policy           own mean                   ips                         snips          effective n")
    for campaign in ("all", "men", "women"):
        bts, random = (
            pl.read_csv(package.locate_file(f"obp/dataset/obd/{policy}/{campaign}/{campaign}.csv"), columns=columns)
            for policy in ("bts", "random")
        )
        shares = bts.group_by("item_id", "position").len()
        shares = shares.with_columns(share=pl.col("len") / pl.col("len").sum().over("position"))
        target = random.join(shares, on=["item_id", "position"], how="left")["share"].fill_null(0.0)
        uniform = np.full(len(bts), random["propensity_score"][0])
        for policy, log, own, wanted in (("uniform", bts, random, uniform), ("bts", random, bts, target.to_numpy())):
            cells = []
            won = own["click"].sum()
            cells.append((own["click"].mean(), *wilson(won, len(own))))
            for estimator in (ips, snips):
                one = estimator(log["click"].to_numpy(), log["propensity_score"].to_numpy(), wanted)
                cells.append((one.value, one.low, one.high))
            shown = "   ".join(f"{value:.4f} ({low:+.4f} to {high:+.4f})" for value, low, high in cells)
            print(f"{campaign:8} {policy:8} {shown}   {one.n_effective:7.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--looks", type=int, default=40)
    parser.add_argument("--open-bandit", action="store_true")
    given = parser.parse_args()
    if given.open_bandit:
        open_bandit()
        return
    town, good, worse = shop()
    decisions(town, good, worse, given.sessions, given.repetitions, given.looks)
    attribution(town, good, worse, given.sessions)


if __name__ == "__main__":
    main()
