import pytest

from tastespace import CML, DPCML
from tastespace.errors import ParameterError
from tastespace.paper import find_method, method_names
from tastespace.paper.tuning import space_of
from tastespace.training.samplers import find_sampler

NAMED_IN_THE_PAPER = [
    "cml+unis", "cml+pops", "cml+2sts", "cml+hars", "cml+ndihars", "cml+dihars", "bpa+unis", "bpa+hars", "bpa+dihars",
    "bpa+ndihars", "apa+unis", "apa+hars", "apa+ndihars", "apa+dihars", "gfja", "gfja+dcrs",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMED_IN_THE_PAPER)
def test_every_named_method_is_what_its_name_says(name):
    model = find_method(name).build({}, seed=3)
    family, _, rest = name.partition("+")
    assert model.seed == 3
    assert isinstance(model, CML) == (family == "cml")
    assert isinstance(model, DPCML)
    if family == "cml":
        assert model.n_interests == 1
    if family == "bpa":
        assert model.n_interests >= 2
    if family == "apa":
        assert model.n_interests == "adaptive"
    if family == "gfja":
        assert model.geometry == "sphere"
        assert model.sampler == "uniform"
        assert model.dcrs == ("mean" if rest == "dcrs" else None)
    else:
        assert find_sampler(model.sampler).paper_name.lower() == rest
    if rest == "hars":
        assert model.n_hardest == 1


def test_a_model_with_content_can_be_trained_before():
    found = find_method("DPCML+DN+PT")
    assert found.build({}, 0).training == "pretrained"
    assert find_method("dpcml+dn").build({}, 0).training == "joint"
    with pytest.raises(ParameterError, match="another method"):
        found.build({"training": "joint"}, 0)
    assert "training" not in space_of(found)
    assert set(space_of(found)) == set(space_of(find_method("dpcml+dn"))) - {"training"}


def test_the_papers_other_names_and_the_registry():
    assert find_method("BPA+HarS").name == "bpa+hars"
    assert find_method("DPCML2").name == "bpa+hars"
    assert {"ease", "popular", "dpcml"} <= set(method_names())
    with pytest.raises(ParameterError, match=r"no method 'apa\+dihar'.*Did you mean apa\+dihars"):
        find_method("apa+dihar")


@pytest.mark.parametrize(
    ("method", "parameters", "message"),
    [
        ("cml+hars", {"sampler": "unis"}, "would make cml\\+hars another method"),
        ("bpa+unis", {"n_interests": 1}, "two or more"),
        ("bpa+unis", {"n_interests": "adaptive"}, "two or more"),
        ("apa+unis", {"n_interests": 4}, r"another method.*Take the method bpa\+unis"),
        ("m2f+dcrs", {"dcrs": None}, "Take the method m2f for that"),
        ("apa+hars", {"n_hardest": 3}, "the hardest of the candidates"),
        ("gfja", {"dcrs": "mean"}, r"another method.*Take the method gfja\+dcrs for that"),
        ("dpcml+dn", {"training": "pretrained"}, r"Take the method dpcml\+dn\+pt for that"),
        ("cml+hars", {"n_interests": 3}, "no parameter 'n_interests'"),
    ],
)
def test_parameters_never_turn_one_method_into_another(method, parameters, message):
    with pytest.raises(ParameterError, match=message):
        find_method(method).build(parameters, seed=0)
