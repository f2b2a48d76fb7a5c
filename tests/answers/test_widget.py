"""The page as a widget in a notebook."""

import sys

import pytest

from tastespace.errors import ParameterError, UnknownIdError


def test_a_widget_answers_messages(page_model, monkeypatch):
    pytest.importorskip("anywidget")
    widget = page_model.explore(7)
    sent = []
    monkeypatch.setattr(type(widget), "send", lambda _, content, buffers=None: sent.append(content))
    ask = {"id": 4, "method": "GET", "path": "/v1/users/7/recommendations", "query": {"k": 3}, "body": None}
    widget._handle_custom_msg(ask, [])
    widget._handle_custom_msg({**ask, "id": 5, "path": "/v1/users/nobody/shelves"}, [])
    assert [(one["id"], one["status"]) for one in sent] == [(4, 200), (5, 422)]
    assert [one["item"] for one in sent[0]["answer"]["items"]] == page_model.recommend(7, 3)["item"].to_list()
    assert widget.user == 7
    assert page_model.explore().user is None
    with pytest.raises(UnknownIdError, match="nobody"):
        page_model.explore("nobody")


def test_the_widget_says_what_it_needs(page_model, monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(ParameterError, match="the notebook extra"):
        page_model.explore(7)
