from __future__ import annotations

from typing import Any

import pytest

from console.fleet import charts, drawing
from telemetry.state import (
    Access,
    GpuLive,
    LiveFrame,
    LiveState,
    NodeLive,
    Panel,
    Rates,
    RecentRequest,
)

NOW_MS = 1_773_144_000_000
ADMIN = Access(None, frozenset({"requests", "fleet", "workers"}))


NOTHING = Panel()


def frame(panel: Panel = NOTHING, access: Access = ADMIN, **state: Any) -> LiveFrame:
    return LiveFrame(LiveState("e", 1, NOW_MS, panel, **state), panel, access)


def gpu(**changes: Any) -> GpuLive:
    values: dict[str, Any] = {
        "uuid": "GPU-12345678-aaaa",
        "name": "NVIDIA H200",
        "node": "node-a",
        "at_ms": NOW_MS - 500,
        "state": "ok",
        "reason": "",
        "readings": {
            "gpu_util": 87.0,
            "fb_used": 74.1e9,
            "fb_total": 80e9,
            "power_usage": 690.0,
            "enforced_power_limit": 700.0,
            "gpu_temp": 61.0,
            "clocks_event_reasons": 5.0,
        },
        "unsupported": (),
        "utilisation": (None,) * 28 + (5.0, 95.0),
    }
    return GpuLive(**(values | changes))


def row_of(item: GpuLive) -> drawing.GpuRow:
    return drawing.gpu_rows(frame(gpus=(item,)))[0]


def value_of(shown: LiveFrame, label: str) -> tuple[str, str]:
    figure = next(each for each in drawing.figures(shown) if each.label == label)
    return figure.value, figure.note


def test_figures_without_traffic_say_so_and_show_no_latency() -> None:
    assert value_of(frame(), "Requests per second") == ("0.0", "none in the last 10 s")
    assert value_of(frame(), "Latency, p95") == ("–", "no answer in the last minute")


def test_in_flight_is_unknown_when_no_worker_reports() -> None:
    assert value_of(frame(), "In flight")[0] == "unknown"
    shown = frame(in_flight=3, workers=1, in_flight_series=(None, 2, 3))
    assert value_of(shown, "In flight") == ("3", "on 1 worker")


def test_a_developer_sees_no_figure_of_the_installation() -> None:
    own = frame(access=Access(frozenset({"ten_a"}), frozenset()), in_flight=9)
    assert "In flight" not in [figure.label for figure in drawing.figures(own)]


def test_failures_are_said_as_a_share() -> None:
    shown = frame(Panel(rates=Rates(requests=10.0, errors=0.5)))
    assert value_of(shown, "Requests per second") == ("10.0", "5 % failed")


def test_a_gpu_is_told_in_words_with_its_binding_term() -> None:
    row = row_of(gpu())
    assert (row.short, row.utilisation, row.memory) == ("12345678", "87 %", "74.1 of 80.0 GB")
    assert (row.power, row.power_share, row.power_tone) == ("690 W", 98.6, "w")
    assert row.throttled_by == ("power cap",)
    assert (row.headroom, row.binding, row.tight) == ("1 %", "power", True)
    assert [cell.heat for cell in row.cells[-3:]] == ["h0", "h1", "h5"]


def test_unsupported_and_unknown_are_two_things_and_neither_is_zero() -> None:
    row = row_of(gpu(readings={}, unsupported=("power_usage",)))
    assert (row.power, row.temperature) == ("not supported", "unknown")
    assert (row.throttled_by, row.throttle_words) == ((), "unknown")
    assert (row.headroom, row.power_share) == ("unknown", None)
    assert "0 " not in row.utilisation + row.memory


@pytest.mark.parametrize(
    ("changes", "trouble"),
    [
        ({"at_ms": NOW_MS - 14_000}, "No sample for 14 s"),
        ({"state": "lost", "reason": "GPU is lost"}, "Lost: GPU is lost"),
    ],
)
def test_a_gpu_without_news_shows_no_old_numbers(changes: dict[str, Any], trouble: str) -> None:
    row = row_of(gpu(**changes))
    assert (row.trouble, row.fresh, row.utilisation) == (trouble, False, "unknown")


def test_the_last_driver_error_is_shown_with_its_age() -> None:
    assert row_of(gpu(last_xid=79, last_xid_ms=NOW_MS - 3000)).last_error == "XID 79, 3 s ago"


@pytest.mark.parametrize(
    ("state", "age_ms", "title"),
    [
        ("ok", 0, None),
        ("no_driver", 0, "No NVIDIA driver found on node-a."),
        ("driver_error", 0, "The NVIDIA driver on node-a has failed."),
        ("off", 0, "Sampling on node-a is off."),
        ("ok", 60_000, "The agent on node-a is silent."),
    ],
)
def test_a_node_says_why_it_has_no_readings(state: str, age_ms: int, title: str | None) -> None:
    node = NodeLive("node-a", NOW_MS - age_ms, state, "because", "", 1000)
    notes = drawing.node_notes(frame(nodes=(node,)))
    assert [note.title for note in notes] == ([title] if title else [])


def test_a_refused_request_has_no_numbers_it_never_had() -> None:
    item = RecentRequest(
        *("req_1", "ten_a", "key_a", "chat", "", NOW_MS, 429, "refused", "budget_exhausted"),
        *(0, 0, 0, 0, 0),
    )
    names = {"ten_a": "Aurora", "key_a": "Batch"}
    shown = frame(Panel(recent=(item,)))
    row = drawing.request_rows(shown, names.__getitem__, names.__getitem__)[0]
    assert (row.tenant, row.words, row.reason) == ("Aurora", "Blocked", "budget exhausted")
    assert (row.input_tokens, row.first_token, row.total, row.cost) == ("–", "–", "–", "$0.00")


@pytest.mark.parametrize(
    ("highest", "top"), [(0, 2), (2, 2), (3, 5), (20, 20), (21, 50), (501, 1000), (999_999, 10**6)]
)
def test_the_axis_ends_at_a_round_number_above(highest: int, top: int) -> None:
    assert charts.nice_top(highest) == top


def test_the_table_of_the_chart_holds_the_same_money() -> None:
    chart = charts.money_chart([0] * 110 + [100_000] * 10, NOW_MS // 1000)
    assert chart.table[0].values == ("$1.00",)
    assert {row.values[0] for row in chart.table[1:]} == {"$0.00"}
    assert chart.lines[0].path.startswith("M0 120.0L")
