"""Some damaged and forged model files; `python -m tests.fuzz.model_files` runs more."""

from tests.fuzz.model_files import ModelFiles


def test_damaged_models_end_in_our_own_errors(tmp_path):
    cases = ModelFiles(tmp_path, seed=1)
    try:
        outcomes = [cases.run(number) for number in range(120)]
    finally:
        cases.close()
    assert [f"{one.what}: {one.raw}" for one in outcomes if one.raw is not None] == []
    assert {one.kind for one in outcomes} >= {"opened", "ModelFileError"}
