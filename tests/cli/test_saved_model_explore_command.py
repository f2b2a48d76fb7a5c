"""`tastespace explore`."""


def test_explore_writes_a_page(shop, run, tmp_path):
    page = tmp_path / "page.html"
    done = run("explore", shop.model, "u01", "u02", "--out", page)
    assert done.code == 0
    assert done.out.strip() == str(page)
    text = page.read_text(encoding="utf-8")
    assert '"user":"u01"' in text
    assert '"user":"u03"' not in text
    failed = run("explore", shop.model, "nobody", "--out", page)
    assert failed.code == 2
    assert "user 'nobody' is not in the model" in " ".join(failed.err.split())
    assert "Without ids the page shows a sample of users." in " ".join(failed.err.split())
    both = run("explore", shop.model, "u01", "--sample", "3", "--out", page)
    assert both.code == 2
    assert "--sample 3 and user ids" in both.err
    assert page.read_text(encoding="utf-8") == text
