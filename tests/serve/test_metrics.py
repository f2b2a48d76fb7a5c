"""Counts of a server: of one worker, and of several that are added up, also after one has ended."""

import concurrent.futures
import os
import re
import signal
import time

import httpx

from tastespace.serve.metrics import BUCKETS, RequestCounts

LIST = "/v1/users/7/recommendations"


def read(text):
    """Numbers by name and labels; every line of the text must be one that Prometheus reads."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP|TYPE) [a-z_]+ .+", line), line
            continue
        name, labels, value = re.fullmatch(r"([a-z_]+)(\{.*\})? (\S+)", line).groups()
        found[name, frozenset(re.findall(r'(\w+)="([^"]*)"', labels or ""))] = float(value)
    return found


def of(found, name, **labels):
    """Values of a name that have these labels, in the order of the text."""
    return [value for (one, has), value in found.items() if one == name and set(labels.items()) <= has]


def test_counts_of_two_workers_are_added_and_a_file_of_a_third_that_broke_off_is_read(tmp_path):
    seconds = (0.0005, 0.004, 30.0)
    one, other = RequestCounts(tmp_path), RequestCounts(tmp_path)
    for counts in (one, other):
        for took in seconds:
            counts.add("GET", LIST, 200, took)
        counts.count("tastespace_feedback_stored_total", 3)
        counts.put("tastespace_model_generation", 2)
    other.in_flight += 5
    found = read(one.text())
    # The file of a worker that was killed while it wrote the name of a count, and of one that had no time to count.
    (tmp_path / "1.broken").write_bytes(sorted(tmp_path.iterdir())[0].read_bytes()[:-3])
    (tmp_path / "2.empty").write_bytes(b"")
    assert of(read(one.text()), "tastespace_requests_total", route=LIST, status="200") == [9]
    (tmp_path / "1.broken").unlink()
    again = read(other.text())
    for numbers in (again, found):  # memory changes from one look to the next
        numbers.pop(next(key for key in numbers if key[0] == "process_resident_memory_bytes"))
    assert again == found
    assert of(found, "tastespace_requests_total", route=LIST, status="200") == [6]
    assert of(found, "tastespace_feedback_stored_total") == [6]
    buckets = of(found, "tastespace_request_seconds_bucket", route=LIST)
    assert buckets == [2 * sum(took <= limit for took in seconds) for limit in (*BUCKETS, float("inf"))]
    assert of(found, "tastespace_request_seconds_count") == [6]
    assert abs(of(found, "tastespace_request_seconds_sum")[0] - 2 * sum(seconds)) < 1e-5


def test_metrics_of_several_workers_are_exact_also_after_one_was_killed(running, model_at):
    server = running(model_at("ease"), "--workers", 2)

    def ask(n):
        with httpx.Client(base_url=server.address, timeout=60, headers={"connection": "close"}) as client:
            return [client.get(LIST).status_code for _ in range(n)]

    def metrics():
        return read(httpx.get(f"{server.address}/metrics", timeout=60).text)

    def asked(found):
        return sum(of(found, "tastespace_requests_total", route="/v1/users/{user}/recommendations"))

    def two_workers(but=frozenset()):
        end, alive = time.monotonic() + 120, set()
        while time.monotonic() < end and not (len(alive) == 2 and alive != but):
            alive = {dict(labels)["worker"] for name, labels in metrics() if name == "process_resident_memory_bytes"}
            time.sleep(0.1)
        assert len(alive) == 2
        return alive

    before = two_workers()
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        assert {status for one in threads.map(ask, [20] * 8) for status in one} == {200}
    found = [metrics() for _ in range(8)]  # whichever worker answers
    assert [asked(one) for one in found] == [160] * 8
    assert all(value > 1e6 for value in of(found[0], "process_resident_memory_bytes"))
    assert of(found[0], "tastespace_model_generation") == [1, 1]
    os.kill(int(min(before)), signal.SIGKILL)
    assert len(two_workers(before) - before) == 1  # the new one, in place of the one that was killed
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        assert {status for one in threads.map(ask, [10] * 4) for status in one} == {200}
    assert [asked(metrics()) for _ in range(4)] == [200] * 4
    server.stop()
