"""The application: host names, other origins, logs and counts without personal data."""

import json
import logging


def test_host_names_and_other_origins(client_of):
    client = client_of(allowed_hosts=("localhost", "127.0.0.1", "::1"))
    for host, status in (("localhost:8000", 200), ("[::1]:80", 200), ("127.0.0.1", 200), ("evil.example", 421)):
        assert client.get("/v1/model", headers={"host": host}).status_code == status, host
    origin = {"origin": "https://shop.example"}
    assert "access-control-allow-origin" not in client_of().get("/v1/model", headers=origin).headers
    allowed = client_of(cors=("https://shop.example",)).get("/v1/model", headers=origin)
    assert allowed.headers["access-control-allow-origin"] == "https://shop.example"


def test_logs_and_counts_name_no_person(client_of, caplog):
    client = client_of(access_log=True)
    with caplog.at_level(logging.INFO, logger="tastespace"):
        client.get("/v1/users/231/recommendations?filter=year>1977")
        client.post("/v1/feedback", json={"events": [{"user": 231, "item": 3}]})
    lines = [json.loads(one.getMessage()) for one in caplog.records if one.name == "tastespace.serve.access"]
    assert [one["route"] for one in lines] == ["/v1/users/{user}/recommendations", "/v1/feedback"]
    assert "231" not in caplog.text
    assert "1977" not in caplog.text
    metrics = client.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert 'route="/v1/users/{user}/recommendations",status="200"' in metrics.text
    assert "tastespace_feedback_stored_total" in metrics.text
    assert "/231" not in metrics.text
