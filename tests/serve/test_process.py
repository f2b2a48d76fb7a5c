"""A server as a process: host names by its address, the access log."""

import json

import httpx

from tastespace.serve.process import checked
from tastespace.serve.settings import ServerSettings


def test_a_server_on_loopback_answers_for_this_machine_and_for_names_that_are_allowed(model_at):
    plain = checked(ServerSettings(model_at("ease"), watch_seconds=0.0))
    assert set(plain.allowed_hosts) == {"localhost", "127.0.0.1", "::1"}
    assert "shop.local" in checked(ServerSettings(model_at("ease"), allowed_hosts=("shop.local",))).allowed_hosts
    assert checked(ServerSettings(model_at("ease"), host="0.0.0.0")).allowed_hosts == ()


def test_the_access_log_has_a_line_for_each_request(running, model_at):
    server = running(model_at("ease"), "--access-log", env={"COLUMNS": "40"})
    httpx.get(f"{server.address}/v1/users/7/recommendations")
    lines = [json.loads(one) for one in server.stop().splitlines() if '"route"' in one]
    assert lines[-1]["route"] == "/v1/users/{user}/recommendations"
    assert lines[-1]["status"] == 200
