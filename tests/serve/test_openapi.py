"""The API is fuzzed from its own document: no server error, and answers that fit the document."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def fuzz(app, n, mode):
    """Send ``n`` requests made from the document to each endpoint; gives the number of endpoints."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    operations = [one.ok() for one in schema.get_all_operations()]
    for operation in operations:

        @settings(max_examples=n, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
        @given(operation.as_strategy(generation_mode=mode))
        def check(case):
            case.call_and_validate(checks=CHECKS)

        check()
    return len(operations)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mode"), [("dpcml", "POSITIVE"), ("text", "POSITIVE"), ("dpcml", "NEGATIVE")])
def test_no_request_is_a_server_error(client_of, name, mode):
    assert fuzz(client_of(name).app, 12, schemathesis.GenerationMode[mode]) >= 20


def test_the_document_names_every_endpoint(shared_client):
    found = shared_client.get("/openapi.json").json()
    assert found["openapi"].startswith("3.1")
    assert {"/v1/feedback", "/v1/users/{user}/shelves", "/metrics", "/v1/map"} <= set(found["paths"])
    for methods in found["paths"].values():
        for one in methods.values():
            assert one["summary"]
