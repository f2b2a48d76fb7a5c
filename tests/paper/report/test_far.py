"""What the report says of figures that are far from the paper's."""

from dataclasses import replace

import pytest

from tastespace.paper.entries import TableRow
from tastespace.paper.report.collecting import Section
from tastespace.paper.report.far import remarks
from tastespace.paper.tables import find_table


@pytest.fixture
def entry():
    return TableRow(dataset="ml-1m", label="TransCF", method="transcf", ours={"P@3": 19.6, "MRR": 24.0},
                 theirs={"P@3": 10.0, "MRR": 24.0}, spread={}, seeds=1, seconds=1.0, state="complete")  # fmt: skip


def said(*entries):
    return remarks(Section(find_table("results1"), "ml-1m", list(entries)))


def test_a_method_far_above_is_named_with_a_reason_and_its_budget(entry):
    (text,) = said(replace(entry, trials=1))
    assert text.startswith("TransCF: P@3 96 % above; Adagrad at rates")
    assert text.endswith("(1 trial).")
    (low,) = said(replace(entry, ours={"P@3": 8.0}))
    assert "P@3 20 % below;" in low
    (second,) = said(replace(entry, method="cml+hars+dd"))
    assert "another first stage" in second


def test_a_quick_run_is_not_compared(entry):
    assert said(replace(entry, note="quick")) == []


def test_what_is_near_or_not_in_the_paper_needs_no_words(entry):
    assert (
        said(replace(entry, ours={"P@3": 10.9, "MRR": 21.7}), replace(entry, theirs={}), replace(entry, ours={})) == []
    )


def test_other_tables_are_not_about_accuracy_of_competitors(entry):
    assert remarks(Section(find_table("cold"), "ml-1m", [entry])) == []
