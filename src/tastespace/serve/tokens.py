"""Bearer tokens, of which only hashes are kept: requests that each may send, and how many in a second.

A file of tokens is JSON: ``{"tokens": [{"name": "shop", "sha256": "...", "scopes": ["read"], "rate": 50}]}``.
Tokens have 256 random bits, so a plain hash of one cannot be searched for. ``tastespace serve-token`` writes the file.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tastespace._util.atomic import atomic_write
from tastespace._util.lru import LruCache
from tastespace.errors import ParameterError, require_path
from tastespace.serve.errors import HttpError

SCOPES = ("read", "feedback", "admin")
_MOST_BUCKETS = 10_000


@dataclass(frozen=True)
class Token:
    """Name, hash and rights of a token; the token itself is not stored."""

    name: str
    sha256: str
    scopes: frozenset[str]
    rate: float | None = None
    """Requests a second; None: the server's limit."""

    def allows(self, scope: str) -> bool:
        """Return whether this scope is granted; admin includes the others."""
        return scope in self.scopes or "admin" in self.scopes


ANONYMOUS = Token("", "", frozenset({"admin"}))
"""Everybody, where no tokens are configured."""


def hashed(token: str) -> str:
    """The SHA-256 of a token, in hexadecimal digits.

    >>> hashed("secret")[:8]
    '2bb80d53'
    """
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def read_tokens(path: Path) -> dict[str, Token]:
    """The tokens of a file, by their hash."""
    try:
        listed = json.loads(path.read_bytes())["tokens"]
        found = [_token(one) for one in listed]
    except OSError as problem:
        raise ParameterError(f"tokens {path}: cannot be read ({problem.strerror}).") from problem
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise ParameterError(
            f'tokens {path}: expected {{"tokens": [{{"name", "sha256", "scopes"}}]}} as JSON ({problem}). '
            "tastespace serve-token writes such a file."
        ) from problem
    return {one.sha256: one for one in found}


def _token(entry: Any) -> Token:
    scopes, rate = frozenset(entry["scopes"]), entry.get("rate")
    _require_scopes(sorted(scopes))
    digest = str(entry["sha256"]).lower()
    if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise ValueError("sha256 is not a SHA-256 hash")
    return Token(str(entry["name"]), digest, scopes, None if rate is None else float(rate))


def _require_scopes(scopes: Sequence[str]) -> None:
    for scope in scopes:
        if scope not in SCOPES:
            raise ParameterError(f"scope {scope!r}: expected {', '.join(SCOPES)}.")


def add_token(path: str | Path, name: str, scopes: Sequence[str], rate: float | None = None) -> str:
    """Make a token, add its hash to a file (in place of one with this name) and return the token, which is not stored.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     token = add_token(f"{folder}/tokens.json", "shop", ["read"])
    ...     [one.name for one in read_tokens(Path(folder) / "tokens.json").values()], token in str(folder)
    (['shop'], False)
    """
    file = require_path(path, "tokens")
    if not scopes:
        raise ParameterError(f"a token needs a scope: {', '.join(SCOPES)}.")
    _require_scopes(scopes)
    kept = read_tokens(file).values() if file.exists() else []
    token = "ts_" + secrets.token_urlsafe(32)
    entries = [*(one for one in kept if one.name != name), Token(name, hashed(token), frozenset(scopes), rate)]
    content = {
        "tokens": [
            {
                "name": one.name,
                "sha256": one.sha256,
                "scopes": sorted(one.scopes),
                **({} if one.rate is None else {"rate": one.rate}),
            }
            for one in entries
        ]
    }
    with atomic_write(file) as temporary:
        temporary.touch(mode=0o600)
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return token


def authenticated(tokens: dict[str, Token], header: str | None, scope: str | None) -> Token:
    """The token of a request, which must grant ``scope``; a scope of None needs no token."""
    kind, _, given = (header or "").partition(" ")
    token = tokens.get(hashed(given.strip())) if kind.lower() == "bearer" and given else None
    if scope is None:
        return token or ANONYMOUS
    if token is None:
        raise HttpError(
            401,
            "unauthorized",
            "a token is missing." if not header else "the token is not known.",
            "Send Authorization: Bearer TOKEN.",
            {"WWW-Authenticate": "Bearer"},
        )
    if not token.allows(scope):
        raise HttpError(403, "forbidden", f"the token does not have the scope {scope!r}.", "Use another token.")
    return token


class RateLimit:
    """Token buckets: each key may send ``rate`` requests a second, with a burst of one second's worth."""

    def __init__(self) -> None:
        self._buckets: LruCache[str, tuple[float, float]] = LruCache(_MOST_BUCKETS)

    def require(self, key: str, rate: float, workers: int = 1) -> None:
        """Count one request, or raise 429; each of several workers allows its share of the rate."""
        configured, rate = rate, rate / workers
        now, most = time.monotonic(), max(1.0, rate)
        level, last = self._buckets.get(key) or (most, now)
        level = min(most, level + (now - last) * rate)
        if level < 1:
            self._buckets.put(key, (level, now))
            wait = (1 - level) / rate
            raise HttpError(
                429, "rate_limited", f"more than {configured:g} requests a second.", f"Wait {wait:.1f} seconds.",
                {"Retry-After": str(max(1, round(wait)))},
            )  # fmt: skip
        self._buckets.put(key, (level - 1, now))
