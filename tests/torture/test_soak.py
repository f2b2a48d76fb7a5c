"""The soak of half an hour, in half a minute; without the limit of memory, which needs longer."""

import pytest
from tests.postgresql import binaries
from tests.required_services import skip_without_service
from tests.torture.soak import problems, soak


@pytest.mark.slow
def test_half_a_minute_of_requests_reloads_and_an_outage(tmp_path):
    if binaries() is None:
        skip_without_service("PostgreSQL is not installed (.ci/install-services)")
    report = soak(tmp_path, seconds=30.0, seed=1, reload_every=8.0)
    assert not problems(report, growth=1.0), report
    assert report["reloads"] >= 2
    assert report["acknowledged"] > 50
    usual = {"list", "shelves", "reason", "similar", "sessions", "profile", "feedback", "metrics"}
    assert usual <= {name.split()[0] for name in report["answers"] if name.endswith("2xx")}, report
    assert not [name for name in report["answers"] if "4xx" in name], report


def test_what_does_not_hold_is_named():
    fine = {"failed_outside_outage": 0, "lost": 0, "twice": 0, "memory_growth": 0.04}
    assert problems(fine) == []
    assert len(problems({"failed_outside_outage": 1, "lost": 2, "twice": 0, "memory_growth": 0.06})) == 3
