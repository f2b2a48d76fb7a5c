"""A fitted model over HTTP: lists, shelves and explanations as JSON, durable feedback, the page.

`tastespace serve shop.model` starts a server; `create_app` returns the ASGI application for another one. Needs the
extra ``serve``. See docs/serving.md.
"""
