"""Tokens, their scopes, and rate limits."""

import stat
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tastespace.cli.app import app
from tastespace.errors import ParameterError
from tastespace.serve.errors import HttpError
from tastespace.serve.settings import Limits
from tastespace.serve.tokens import RateLimit, add_token, read_tokens


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def test_scopes(client_of, model_at, tmp_path):
    path = tmp_path / "tokens.json"
    tokens = {scope: add_token(path, scope, [scope]) for scope in ("read", "feedback", "admin")}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not any(token in path.read_text() for token in tokens.values())
    client = client_of(tokens=path)
    calls = {
        "read": lambda headers: client.get("/v1/users/7/recommendations", headers=headers),
        "feedback": lambda headers: client.post(
            "/v1/feedback", json={"events": [{"user": 7, "item": 3}]}, headers=headers
        ),
        "admin": lambda headers: client.post("/v1/model/reload", json={}, headers=headers),
    }
    for needed, call in calls.items():
        assert call({}).status_code == 401
        assert call({}).headers["www-authenticate"] == "Bearer"
        assert call(bearer("ts_wrong")).status_code == 401
        assert call({"authorization": "Basic eDp5"}).status_code == 401
        for scope, token in tokens.items():
            assert call(bearer(token)).status_code == (200 if scope in (needed, "admin") else 403), (needed, scope)
    assert client.get("/metrics").status_code == 401
    assert client.get("/health/live").status_code == client.get("/openapi.json").status_code == 200
    # A token that is taken away is refused soon.
    path.write_text('{"tokens": []}')
    client.app.state.look()
    assert calls["read"](bearer(tokens["read"])).status_code == 401


def test_the_command_makes_tokens(tmp_path):
    path = tmp_path / "tokens.json"
    command = ["serve-token", "shop", "--scope", "read", "--scope", "feedback", "--tokens", str(path), "--rate", "5"]
    first = CliRunner().invoke(app, command).output.strip()
    second = CliRunner().invoke(app, command).output.strip()
    assert first.startswith("ts_")
    assert first != second
    (token,) = read_tokens(path).values()  # the second replaces the first
    assert (token.name, token.scopes, token.rate) == ("shop", frozenset({"read", "feedback"}), 5.0)


SHORT_HASH = '{"tokens": [{"name": "x", "sha256": "1", "scopes": []}]}'


@pytest.mark.parametrize("content", ["", "[]", '{"tokens": [{"name": "x"}]}', SHORT_HASH])
def test_files_that_are_none(tmp_path, content):
    (tmp_path / "tokens.json").write_text(content)
    with pytest.raises(ParameterError, match="tokens"):
        read_tokens(tmp_path / "tokens.json")
    with pytest.raises(ParameterError, match="scope"):
        add_token(tmp_path / "other.json", "x", ["root"])


def test_rate_limit(client_of, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("tastespace.serve.tokens.time", SimpleNamespace(monotonic=lambda: now[0]))
    client = client_of(limits=Limits(rate=3))
    found = [client.get("/v1/model").status_code for _ in range(12)]
    assert found == [200] * 3 + [429] * 9
    assert "retry-after" in client.get("/v1/model").headers
    shared = client_of(limits=Limits(rate=4), workers=4)
    _, refused = [shared.get("/v1/model") for _ in range(2)]
    assert refused.json()["error"]["message"] == "more than 4 requests a second."
    assert client.get("/health/live").status_code == 200
    limit, passed = RateLimit(), 0
    for step in range(1000):
        now[0] = step / 100
        try:
            limit.require("shop", 5.0)
            passed += 1
        except HttpError:
            pass
    assert 50 <= passed <= 56  # ten seconds, and one second's worth saved up
