"""The map of a catalog: positions of vectors in the plane, for models with and without vectors."""

import numpy as np
import pytest

import tastespace as ts
from tastespace.answers import map as map_layout
from tastespace.answers.map import catalog_map, interest_places, plane_layout


def groups(n, n_groups=5, seed=0):
    rng = np.random.default_rng(seed)
    group = np.arange(n) % n_groups
    vectors = 4 * rng.normal(size=(n_groups, 12))[group] + rng.normal(size=(n, 12))
    return vectors.astype(np.float32), group


def share_of_neighbors_in_the_same_group(places, group, k=5):
    squared = ((places[:, None] - places[None]) ** 2).sum(axis=2)
    np.fill_diagonal(squared, np.inf)
    near = np.argsort(squared, axis=1)[:, :k]
    return (group[near] == group[:, None]).mean()


@pytest.fixture
def few_landmarks(monkeypatch):
    monkeypatch.setattr(map_layout, "LANDMARKS", 120)


def test_near_vectors_are_near_on_the_map(few_landmarks):
    for n in (100, 600):  # all are landmarks; most are placed beside some
        vectors, group = groups(n)
        places = plane_layout(vectors, np.arange(n))
        assert places.shape == (n, 2)
        assert np.abs(places).max() <= 1.0
        assert np.allclose(np.abs(places).max(axis=0), 1.0, atol=1e-5)
        assert share_of_neighbors_in_the_same_group(places, group) > 0.95
        assert len(np.unique(places, axis=0)) == n  # nothing is drawn on top of something else


def test_the_same_vectors_give_the_same_map(few_landmarks):
    vectors, _ = groups(300)
    assert np.array_equal(plane_layout(vectors, np.arange(300)), plane_layout(vectors, np.arange(300)))


@pytest.mark.parametrize(
    "vectors",
    [
        np.zeros((0, 4)),
        np.zeros((1, 4)),
        np.zeros((3, 4)),
        np.zeros((30, 4)),
        np.ones((30, 1)),
        np.repeat(np.eye(3), 10, axis=0),
        1e-20 * np.eye(20),
        1e15 * np.eye(20),
    ],
)
def test_degenerate_vectors_have_finite_places(vectors):
    places = plane_layout(vectors, np.arange(len(vectors)))
    assert places.shape == (len(vectors), 2)
    assert np.isfinite(places).all()


def test_similarities_have_the_perplexity_that_was_asked_for():
    vectors, _ = groups(200)
    table = map_layout._similarities(vectors).toarray()
    assert np.isclose(table.sum(), 1.0)
    assert np.allclose(table, table.T)


def test_repulsion_is_what_the_definition_says():
    places = np.random.default_rng(0).normal(size=(150, 2)).astype(np.float32)
    push, total = map_layout._repulsion(places)
    apart = places[:, None].astype(np.float64) - places[None]
    closeness = 1 / (1 + (apart**2).sum(axis=2))
    assert np.isclose(total, closeness.sum() - len(places), rtol=1e-5)
    assert np.allclose(push, (closeness[:, :, None] ** 2 * apart).sum(axis=1), atol=1e-3)


def genres(data):
    return np.array([one[0] for one in data.item_attributes["genres"].to_list()])


@pytest.mark.parametrize("kind", ["dpcml", "ease", "als"])
def test_items_of_a_category_are_together(kind, page_model, ease, town):
    data = town.interactions
    model = {
        "dpcml": lambda: page_model,
        "ease": lambda: ease,
        "als": lambda: ts.models.create("als", dim=16).fit(data, progress=False),
    }[kind]()
    places, genre = catalog_map(model).places, genres(data)
    assert places.shape == (data.n_items, 2)
    squared = ((places[:, None] - places[None]) ** 2).sum(axis=2)
    np.fill_diagonal(squared, np.inf)
    same = (genre[squared.argmin(axis=1)] == genre).mean()
    by_chance = ((np.unique(genre, return_counts=True)[1] / len(genre)) ** 2).sum()
    assert same > 2.5 * by_chance


def test_interests_are_among_their_nearest_items(page_model):
    places = catalog_map(page_model).places
    space = page_model.vectors()
    for row in (3, 7):
        found = interest_places(page_model, row)
        vectors = space.user_vectors[space.user_offsets[row] : space.user_offsets[row + 1]]
        assert len(found) == len(vectors)
        squared = ((vectors[:, None] - space.item_vectors[None]) ** 2).sum(axis=2)
        for x, at in enumerate(found):
            own = np.flatnonzero(squared.argmin(axis=0) == x)
            nearest = own[np.argsort(squared[x, own], kind="stable")][:15]
            to_these = np.sort(np.linalg.norm(places[nearest] - at, axis=1))[:6].mean()
            to_any = np.sort(np.linalg.norm(places[None] - places[:, None], axis=2), axis=1)[:, 1:7].mean()
            assert to_these < 5 * to_any  # not in a void between them


def test_newcomers_are_on_the_same_map_and_it_is_computed_once(page_model, ease):
    folded = page_model.fold_in([[3, 17, 21]])
    assert catalog_map(folded).places is catalog_map(page_model).places
    assert len(interest_places(folded, 0)) == 3
    assert interest_places(ease, 3) == []
