"""What is stored of a model: its class by name, its parameters, everything it has learned."""

import json
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from tests.fuzz.model_files import seal
from tests.store.model_equality import assert_same_model, assert_same_value

from tastespace import (
    CML,
    DPCML,
    EASE,
    Blend,
    MostPopular,
    models,
)
from tastespace.errors import DataError, ModelFileError, NotFittedError
from tastespace.models import Recommender
from tastespace.store import inspect, load, save
from tastespace.store._manifest import checksum
from tastespace.store._state import class_name, find_class


class Learner(MostPopular):
    """Not in the registry; learns whatever it is told to."""

    def __init__(self, learns=None, option=1):
        self.learns = learns
        self.option = option

    def _fit(self, train, valid, progress):
        super()._fit(train, valid, progress)
        self._private_ = object()
        self.scratch = object()


class Keeper(Learner):
    """Says itself what is stored."""

    def _learned(self):
        return {"scores": self.item_scores_, "users": self.train_.n_users, "__metadata__": np.arange(3)}

    def _restore(self, learned):
        assert learned["users"] == self.train_.n_users
        assert learned["__metadata__"].tolist() == [0, 1, 2]
        self.item_scores_ = learned["scores"]


def again(model, path):
    save(model, path)
    return load(path, verify=True)


def learner(parts, **learned):
    model = Learner().fit(parts[0])
    for name, value in learned.items():
        setattr(model, name, value)
    return model


@pytest.mark.parametrize("name", sorted(models.registry()))
def test_every_model_comes_back(tmp_path, fitted, name):
    model = fitted(name)
    loaded = again(model, tmp_path / "model")
    assert_same_model(loaded, model)
    assert loaded.valid_ is None
    assert loaded.recommend(k=5).equals(model.recommend(k=5))
    assert repr(loaded) == repr(model)
    assert class_name(loaded) == name


def test_a_loaded_model_goes_on_learning_as_the_saved_one_would(tmp_path, parts, fitted):
    loaded = again(fitted("dpcml"), tmp_path / "model")
    model = load(tmp_path / "model")
    model.user_vectors_, model.item_vectors_ = (fitted("dpcml").user_vectors_, fitted("dpcml").item_vectors_)
    assert_same_value(loaded.partial_fit(parts[2]).user_vectors_, model.partial_fit(parts[2]).user_vectors_)


def test_everything_that_can_be_learned(tmp_path, parts):
    learned = {
        "flags_": np.array([True, False]),
        "empty_": np.empty((0, 3), dtype=np.float16),
        "number_": np.array(4, dtype=np.uint16),
        "step_": np.float32("nan"),
        "rows_": [{"loss": float("inf"), "epoch": 1}, {}],
        "nothing_": None,
        "text_": "é",
        "pair_": (1, [2.5]),
        "similar_": sp.csr_array(np.eye(3, dtype=np.float32)),
        "memory_": {"first": np.arange(3), "second": np.ones((2, 2)), "steps": 7},
        "by_number_": {3: "c"},
    }
    model = learner(parts, **learned)
    loaded = again(model, tmp_path / "model")
    assert_same_model(loaded, model)
    assert not hasattr(loaded, "_private_")
    assert not hasattr(loaded, "scratch")


def test_a_model_may_say_itself_what_is_stored(tmp_path, parts):
    model = Keeper().fit(parts[0])
    model.hopeless_ = object()
    loaded = again(model, tmp_path / "model")
    np.testing.assert_array_equal(loaded.item_scores_, model.item_scores_)
    assert not hasattr(loaded, "hopeless_")


def test_what_cannot_be_stored_is_named_before_anything_is_written(tmp_path, parts):
    with pytest.raises(
        DataError, match=r"Learner cannot be saved: tree_\.root is of type object.*_learned and _restore"
    ):
        save(learner(parts, tree_={"root": object()}), tmp_path / "model")
    with pytest.raises(DataError, match=r"Learner's parameter learns is of type function.*Convert it\.$"):
        save(Learner(learns=lambda: 0).fit(parts[0]), tmp_path / "model")
    with pytest.raises(DataError, match=r"metrics\.x is of type object"):
        save(learner(parts), tmp_path / "model", metrics={"x": object()})
    assert list(tmp_path.iterdir()) == []


def test_only_fitted_models_are_saved(tmp_path):
    with pytest.raises(NotFittedError):
        save(EASE(), tmp_path / "model")
    with pytest.raises(DataError, match="given str"):
        save("model", tmp_path / "model")


@pytest.mark.parametrize("value", [np.int64(3), (1, 2), {"a": None}, float("inf"), "text", [np.float32(0.5)]])
def test_parameters_keep_their_types(tmp_path, parts, value):
    model = Learner(option=value).fit(parts[0])
    assert_same_value(again(model, tmp_path / "model").option, value)
    assert_same_value(inspect(tmp_path / "model")["parameters"], model.get_params())


def test_a_model_file_does_not_say_where_to_write(tmp_path, parts):
    victim = tmp_path / "orders.csv"
    victim.write_text("mine")
    for model in (CML(dim=2, epochs=1, threads=1), Blend([CML(dim=2, epochs=1, threads=1)], weights=[1.0])):
        folder = tmp_path / type(model).__name__
        model.fit(parts[0]).save(folder)
        content = json.loads((folder / "model.json").read_text())
        paths = {"log_file": str(victim), "checkpoint": str(tmp_path / "run"), "spill": str(tmp_path / "run")}
        holders = [content, *content["learned"].get("members_", []), *content["parameters"].get("members", [])]
        for one in holders:
            if one.get("class", one.get("$model")) == "cml":
                one["parameters"].update(paths)
        seal(folder, content)
        forged = load(folder)
        forged.partial_fit(parts[1])
        forged.fit(parts[0])
    assert victim.read_text() == "mine"
    assert not (tmp_path / "run").exists()
    own = CML(dim=2, epochs=1, log_file=tmp_path / "log.csv", checkpoint=tmp_path / "own", threads=1).fit(parts[0])
    found = again(own, tmp_path / "model")
    assert (found.log_file, found.checkpoint) == (None, None)
    assert str(tmp_path) not in (tmp_path / "model" / "model.json").read_text()


def test_classes_outside_the_registry_are_found_in_their_module(tmp_path, parts, monkeypatch):
    module = "test_state_plugin"
    (tmp_path / f"{module}.py").write_text("from tastespace import EASE\nclass Mine(EASE): pass\nnumber = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    model = find_class(f"{module}:Mine", "here")().fit(parts[0])
    save(model, tmp_path / "model")
    assert inspect(tmp_path / "model")["class"] == f"{module}:Mine"
    assert type(load(tmp_path / "model")) is type(model)
    monkeypatch.delitem(sys.modules, module)
    assert type(load(tmp_path / "model", trust=module)).__name__ == "Mine"  # imported anew
    with pytest.raises(ModelFileError, match="no tastespace Recommender"):
        find_class(f"{module}:number", "here")

    monkeypatch.delitem(sys.modules, module)
    (tmp_path / f"{module}.py").write_text("raise RuntimeError('half written')")
    with pytest.raises(ModelFileError, match=r"class Mine from the module 'test_state_plugin', which cannot be imp"):
        load(tmp_path / "model", trust=True)
    (tmp_path / f"{module}.py").unlink()
    with pytest.raises(ModelFileError, match=r"Import the module first, or put it on the Python path"):
        load(tmp_path / "model", trust=module)
    assert inspect(tmp_path / "model")["users"] == parts[0].n_users  # needs no class


def test_a_class_inside_a_function_is_refused(tmp_path, parts):
    class Hidden(MostPopular):
        pass

    with pytest.raises(DataError, match="inside a function"):
        save(Hidden().fit(parts[0]), tmp_path / "model")


def test_an_unknown_class_is_an_error_with_an_offer():
    with pytest.raises(ModelFileError, match=r"class 'eas', which this version .* does not have.*Did you mean ease"):
        find_class("eas", "here")


def test_an_unknown_parameter_is_an_error_with_an_offer(tmp_path, parts, monkeypatch):
    save(Learner(option=2).fit(parts[0]), tmp_path / "model")

    class Newer(Recommender):
        def __init__(self, options=1):
            self.options = options

        def _fit(self, train, valid, progress):
            pass

    monkeypatch.setattr(sys.modules[__name__], "Learner", Newer)
    with pytest.raises(ModelFileError, match=r"the parameter 'learns', but this version's Newer has no such parameter"):
        load(tmp_path / "model")


def test_a_class_that_refuses_what_was_stored(tmp_path, parts, monkeypatch):
    save(Keeper().fit(parts[0]), tmp_path / "model")
    monkeypatch.setattr(Keeper, "_restore", lambda self, learned: learned["missing"])
    with pytest.raises(ModelFileError, match=r"Keeper could not be made again .*KeyError"):
        load(tmp_path / "model")


# ---- models inside models ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def blend(parts):
    inner = Blend.of([EASE().fit(parts[0]), MostPopular().fit(parts[0])], [0.3, 0.7])
    return Blend.of([DPCML(dim=4, n_interests=2, anchor=0.5, epochs=2).fit(parts[0]), inner], [0.4, 0.6])


def changed(model, path, change):
    """Save a model, change its model.json, and give the folder."""
    save(model, path)
    content = json.loads((path / "model.json").read_text())
    change(content)
    content["crc32"] = "00000000"
    text = json.dumps(content).encode()
    (path / "model.json").write_bytes(text.replace(b"00000000", checksum(text).encode(), 1))
    return path


def test_models_inside_models_come_back_with_the_training_data(tmp_path, blend):
    loaded = again(blend, tmp_path / "model")
    assert_same_model(loaded, blend)
    assert loaded.members_[0].train_ is loaded.train_
    assert loaded.members_[1].members_[0].train_ is loaded.train_
    assert not loaded.members[0].is_fitted
    learned = json.loads((tmp_path / "model" / "model.json").read_text())["learned"]["members_"]
    assert [one["$model"] for one in learned] == ["dpcml", "blend"]
    assert "learned" not in json.loads((tmp_path / "model" / "model.json").read_text())["parameters"]["members"][0]


def test_a_loaded_blend_goes_on_learning_as_the_saved_one_would(tmp_path, parts, blend):
    loaded = again(blend, tmp_path / "model")
    users = np.arange(parts[0].n_users)
    scores = loaded.partial_fit(parts[2]).score_block(users)
    np.testing.assert_array_equal(scores, load(tmp_path / "model").partial_fit(parts[2]).score_block(users))
    assert not np.array_equal(scores, blend.score_block(users))


def test_a_member_that_says_itself_what_is_stored_has_its_data_by_then(tmp_path, parts):
    model = Blend.of([Keeper().fit(parts[0]), EASE().fit(parts[0])], [0.5, 0.5])
    np.testing.assert_array_equal(
        again(model, tmp_path / "model").score_block(np.arange(5)), model.score_block(np.arange(5))
    )


def test_inspect_shows_the_members(tmp_path, blend):
    save(blend, tmp_path / "model")
    found = inspect(tmp_path / "model")
    assert found["class"] == "blend"
    assert repr(found["parameters"]["members"]) == repr(blend.members)


def _set(member, key, value):
    def change(content):
        content["learned"]["members_"][member][key] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set(0, "$model", "dpclm"), r"members_ is a model of the class 'dpclm', which this version.*Did you mean"),
        (_set(0, "$model", "no_such_module:Model"), r"class no_such_module:Model\. Its module is not imported"),
        (_set(0, "$model", "json:JSONEncoder"), "no tastespace Recommender"),
        (_set(0, "$model", 3), "members_ holds .* which this version cannot read"),
        (_set(0, "parameters", {"dimm": 3}), r"has the parameter 'dimm', but this version's DPCML.*Did you mean dim"),
        (_set(0, "parameters", [3]), r"members_"),
        (_set(0, "learned", 3), "members_ holds .* which this version cannot read"),
        (_set(1, "learned", {"members_": [], "weights_": {"$array": "nowhere", "dtype": "F64", "shape": [2]}}), "nowh"),
    ],
)
def test_a_damaged_model_inside_a_model_is_a_clear_error(tmp_path, blend, change, message):
    folder = changed(blend, tmp_path / "model", change)
    with pytest.raises(ModelFileError, match=message):
        load(folder)


def test_files_from_before_models_had_members_and_auto_interests_still_load(tmp_path, parts):
    """What newer versions added to what is learned is absent there."""
    model = DPCML(dim=4, n_interests=2, epochs=2).fit(parts[0])
    folder = changed(model, tmp_path / "model", lambda content: content["learned"].pop("n_interests_"))
    loaded = load(folder)
    users = np.arange(parts[0].n_users)
    np.testing.assert_array_equal(loaded.score_block(users), model.score_block(users))
    history = [parts[0].items_of(parts[0].users[0])]
    assert loaded.recommend_for(history, k=3).equals(model.recommend_for(history, k=3))
    np.testing.assert_array_equal(
        loaded.partial_fit(parts[2]).score_block(users), model.partial_fit(parts[2]).score_block(users)
    )
