"""The map of a catalog, for models with and without vectors."""

import numpy as np
import pytest

import tastespace as ts
from tastespace.answers.map import catalog_map, interest_places


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
