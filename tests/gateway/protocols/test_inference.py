from __future__ import annotations

from typing import Any

import pytest

from gateway.protocols import inference
from gateway.protocols.errors import Refused
from gateway.upstream.engines.table import Capabilities


@pytest.mark.parametrize(
    ("document", "limit"),
    [
        ({}, None),
        ({"a": None, "b": None}, None),
        ({"a": 5}, 5),
        ({"a": 5, "b": 3}, 3),
        ({"a": 3, "b": 5}, 3),
    ],
)
def test_of_several_limits_the_smallest_holds(document: dict[str, Any], limit: int | None) -> None:
    assert inference.smallest_limit(document, ("a", "b")) == limit


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "1", 2**31])
def test_a_count_is_a_whole_number_that_fits_the_ledger(value: Any) -> None:
    with pytest.raises(Refused) as caught:
        inference.positive({"x": value}, "x")
    assert caught.value.param == "x"


def test_all_that_is_generated_counts() -> None:
    assert inference.choices_of({}) == 1
    assert inference.choices_of({"n": 2, "best_of": 7}) == 7


def test_fields_are_dropped_or_refused_as_the_engine_has_them() -> None:
    engine = Capabilities(
        "x", dropped=frozenset(("metadata",)), refused=frozenset(("min_p", "top_k"))
    )
    document: dict[str, Any] = {"metadata": {"a": 1}, "min_p": None, "kept": 1}
    inference.fit(document, engine)
    assert document == {"kept": 1}
    with pytest.raises(Refused) as caught:
        inference.fit({"top_k": 3, "min_p": 0.1}, engine)
    assert caught.value.param == "min_p"


def test_usage_is_asked_for_without_losing_what_the_client_asked() -> None:
    request = inference.InferenceRequest({"model": "m", "stream": True}, ())
    request.document["stream_options"] = {"continuous_usage_stats": True}
    inference.read_streaming(request)
    inference.ask_for_usage(request, Capabilities("x"))
    assert request.document["stream_options"] == {
        "continuous_usage_stats": True,
        "include_usage": True,
    }
    assert not request.wants_usage
