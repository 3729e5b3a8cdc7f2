"""Round trip of every catalogue skill: document -> page -> post -> the same document."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from django.http import QueryDict
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from console.ui.schema_form import (
    UNSET,
    SchemaField,
    label_of,
    posted_values,
    read,
    schema_fields,
    state_text,
)
from console.ui.widgets import Control
from policies.catalogue import CATALOGUE
from policies.contract.manifest import Skill
from policies.merge import field_rules

BY_SLUG = pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.slug)
NAMES = st.from_regex(r"[a-z0-9]{1,8}(-[a-z0-9]{1,4}){0,2}", fullmatch=True)


def post_of(values: dict[str, list[str]]) -> QueryDict:
    post = QueryDict(mutable=True)
    for name, texts in values.items():
        post.setlist(name, texts)
    return post


def values_of(control: Control) -> st.SearchStrategy[Any]:
    low, high = control.low or 0, control.high if control.high is not None else 10_000
    whole = st.integers(int(low), int(high))
    decimal = st.floats(float(low), float(high), allow_nan=False)
    parts = {"integer": st.integers(1, 900), "decimal": decimal, "text": NAMES}
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "segments": st.sampled_from(control.options or ("",)),
        "select": st.sampled_from(control.options or ("",)),
        "checks": st.lists(st.sampled_from(control.options or ("",)), unique=True),
        "words": st.lists(parts[control.item], unique=True, max_size=6),
        "integer": whole,
        "decimal": decimal,
        "text": NAMES,
        "yaml": st.none(),
    }
    found = kinds[control.kind]
    return st.none() | found if control.nullable else found


def accepted(adapter: TypeAdapter[Any], value: Any) -> bool:
    try:
        adapter.validate_json(orjson.dumps(value))
    except ValidationError:
        return False
    return True


def _accepted_values(entry: Skill, field: SchemaField) -> st.SearchStrategy[Any]:
    adapter = field_rules(entry.config)[field.name].adapter

    def fits(value: Any) -> bool:
        return accepted(adapter, value)

    return values_of(field.control).filter(fits)


def documents(entry: Skill) -> st.SearchStrategy[dict[str, Any]]:
    fields: dict[str, st.SearchStrategy[Any]] = {
        field.name: _accepted_values(entry, field) for field in schema_fields(entry.config)
    }
    return st.fixed_dictionaries({}, optional=fields)


def document_of(fields: tuple[SchemaField, ...], values: dict[str, list[str]]) -> dict[str, str]:
    entered = read(fields, post_of(values))
    return {
        field.name: state_text(field.control, entered[field.name].value)
        for field in fields
        if entered[field.name].is_set
    }


def stated(fields: tuple[SchemaField, ...], document: dict[str, Any]) -> dict[str, str]:
    return {
        field.name: state_text(field.control, document[field.name])
        for field in fields
        if field.name in document
    }


@BY_SLUG
@given(st.data())
def test_a_page_nobody_touched_changes_nothing(entry: Skill, data: st.DataObject) -> None:
    fields, document = schema_fields(entry.config), data.draw(documents(entry))
    values = posted_values(fields, document)
    assert document_of(fields, values) == stated(fields, document)
    assert not any(each.changed for each in read(fields, post_of(values)).values())


@BY_SLUG
@given(st.data())
def test_what_is_entered_is_what_the_document_says(entry: Skill, data: st.DataObject) -> None:
    fields = schema_fields(entry.config)
    before, after = data.draw(documents(entry)), data.draw(documents(entry))
    drawn, wanted = posted_values(fields, before), posted_values(fields, after)
    kept = {
        name: texts
        for name, texts in drawn.items()
        if name.partition(".")[0] in ("base", "on", "shown")
    }
    values = {**{n: t for n, t in wanted.items() if n not in kept}, **kept}
    for field in fields:  # a control left alone beside a switch that is off shows what it showed
        if field.name not in after:
            for part in ("value", "null"):
                values.pop(f"{part}.{field.name}", None)
                if f"{part}.{field.name}" in drawn:
                    values[f"{part}.{field.name}"] = drawn[f"{part}.{field.name}"]
    assert document_of(fields, values) == stated(fields, after)


@BY_SLUG
@given(st.data())
def test_typing_into_an_inherited_field_sets_it_without_the_switch(
    entry: Skill, data: st.DataObject
) -> None:
    fields = schema_fields(entry.config)
    field = data.draw(st.sampled_from([each for each in fields if each.control.kind == "integer"]))
    value = data.draw(values_of(field.control).filter(lambda found: found != field.default))
    values = {**posted_values(fields, {}), f"value.{field.name}": [str(value)]}
    entered = read(fields, post_of(values))
    assert {name for name, each in entered.items() if each.is_set} == {field.name}
    assert entered[field.name].value == value


def test_unset_null_and_nothing_are_three_values() -> None:
    fields = schema_fields(next(e for e in CATALOGUE if e.slug == "geo_residency").config)
    cases: list[dict[str, Any]] = [{}, {"allowed_regions": None}, {"allowed_regions": []}]
    for document in cases:
        entered = read(fields, post_of(posted_values(fields, document)))["allowed_regions"]
        assert entered.value == document.get("allowed_regions", UNSET)


@pytest.mark.parametrize("text", ["", "x", "1.5", "1e3", "０", "9" * 19, "1 000", "--1"])
def test_what_is_no_whole_number_is_named_beside_its_field(text: str) -> None:
    fields = schema_fields(next(e for e in CATALOGUE if e.slug == "circuit_breaker").config)
    values = posted_values(fields, {"window_s": 60}) | {"value.window_s": [text]}
    found = read(fields, post_of(values))["window_s"]
    assert found.error == "Enter a whole number."
    assert found.changed


def test_a_choice_that_is_not_offered_is_refused() -> None:
    fields = schema_fields(CATALOGUE[0].config)
    values = posted_values(fields, {"mode": "off"}) | {"value.mode": ["<script>"]}
    assert read(fields, post_of(values))["mode"].error == "Choose one of the options."


def test_a_list_may_stand_in_several_boxes_and_lines() -> None:
    fields = schema_fields(next(e for e in CATALOGUE if e.slug == "geo_residency").config)
    values = posted_values(fields, {"allowed_regions": ["eu-1"]})
    values["value.allowed_regions"] = ["eu-1", "us-1\r\neu-1\r\n\r\n ap-1 "]
    assert read(fields, post_of(values))["allowed_regions"].value == ["eu-1", "us-1", "ap-1"]


@pytest.mark.parametrize(
    ("name", "words"),
    [("base_open_ms", "Base open"), ("xid_critical", "XID critical"), ("max_probes", "Max probes")],
)
def test_a_field_reads_as_words(name: str, words: str) -> None:
    assert label_of(name, has_unit=name.endswith("_ms")) == words
