"""Why a request went where it went, in words: from its record, its ledger rows and the policy it was judged by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from console.providers.models import Endpoint
from console.spend.selectors import request_state
from console.studio.models import PolicyRevision
from console.studio.selectors import revision_documents
from console.ui.format import milliseconds, money, number
from policies.catalogue import CATALOGUE, is_skill, skill
from policies.merge import EffectiveSkill, PolicyIndex, effective
from telemetry.models import RequestRecord
from telemetry.selectors import RequestDetail

_REASONS: Final = {
    "next": "Passed",
    "region_not_allowed": "the fence does not allow its region",
    "region_unknown": "its region is unknown, and unknown is never allowed",
    "price_unknown": "its pool has no price",
    "circuit_open": "it is resting after failures",
    "": "not told",
}
_ENDINGS: Final = {
    "client_gone": "The client left; the engine was stopped and what was produced is billed.",
    "upstream_error": "The engine failed.",
    "upstream_refused": "The engine refused it.",
    "timeout": "The engine did not answer in time.",
    "interrupted": "The gateway worker was interrupted; the end was written by its successor.",
    "budget_cut": "The engine went on after its limit and was stopped: a hard budget pays for no more.",
}


@dataclass(frozen=True, slots=True)
class StageRow:
    slug: str
    title: str
    mode: str
    outcome: str
    origin: str
    """Who set the mode; empty where the policy of that time is not kept."""
    skipped: bool
    marked: bool


@dataclass(frozen=True, slots=True)
class CandidateRow:
    id: str
    region: str
    pool: str
    removed_by: str
    reason: str
    picked: bool


@dataclass(frozen=True, slots=True)
class AttemptRow:
    number: int
    endpoint: str
    status: str
    error: str
    took: str


@dataclass(frozen=True)
class Explained:
    """One request. `endpoints` are those of its decisions that still exist."""

    detail: RequestDetail
    endpoints: Mapping[str, Endpoint]
    revision: PolicyRevision | None

    @property
    def record(self) -> RequestRecord | None:
        """The last attempt: how it ended for the caller."""
        return self.detail.records[-1] if self.detail.records else None

    @property
    def decisions(self) -> dict[str, Any]:
        found: dict[str, Any] = self.record.decisions if self.record else {}
        return found

    @property
    def stripped(self) -> list[str]:
        return list(self.decisions.get("stripped_fields", ()))

    @property
    def charges(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = request_state(self.detail)["charges"]
        for charge in found:
            charge["units"] = sum(part["product"] for part in charge["parts"])
            charge["rounded"] = charge["billed_microusd"] * 1_000_000 - charge["units"]
            charge["unbilled"] = max(0, -charge["rounded"])
        return found

    # -------------------------------------------------------------------------------- the sentence

    @property
    def sentence(self) -> str:
        record = self.record
        if record is None:
            return f"Billed {money(self.detail.billed_microusd)}. How it was decided is no longer kept."
        if record.outcome == "refused":
            return (
                f"Refused with {record.status} before anything was sent to a model: "
                f"{record.message or record.code} Nothing is billed."
            )
        return " ".join(
            part for part in (self._served(record), self._why(), self._cost(record)) if part
        )

    def _served(self, record: RequestRecord) -> str:
        if record.outcome != "ok":
            ending = _ENDINGS.get(record.outcome, record.outcome)
            return f"{ending} {record.message}".strip()
        where = self._place(record.endpoint_id)
        return f"Served by {where} in {milliseconds(record.latency_us / 1000)}."

    def _why(self) -> str:
        left = Counter(each["skill"] for each in self.decisions.get("eliminated", ()))
        total = len(self.decisions.get("candidates", ()))
        if not left:
            return (
                f"{_some(total, 'endpoint')} could serve it, none was ruled out." if total else ""
            )
        parts = [
            f"{_title(slug)} ruled out {count} of {_some(total, 'endpoint')}"
            for slug, count in left.items()
        ]
        return f"{' and '.join(parts)}."

    def _cost(self, record: RequestRecord) -> str:
        tokens = (
            f"{number(record.input_tokens)} input and {number(record.output_tokens)} output tokens"
        )
        known = {"estimated": ", estimated", "counted": ", counted up to the cut"}
        return f"Billed {money(self.detail.billed_microusd)} for {tokens}{known.get(record.usage_source, '')}."

    def _place(self, endpoint_id: str) -> str:
        endpoint = self.endpoints.get(endpoint_id)
        if endpoint is None:
            return endpoint_id or "an endpoint that is not known"
        return f"{endpoint.pool.name} in {endpoint.region or 'an unknown region'}"

    # -------------------------------------------------------------------------------- the tables

    @cached_property
    def stages(self) -> list[StageRow]:
        """What ran, in order, then every other skill with the reason why it did not."""
        ran = self.decisions.get("stages", ())
        rows = [self._stage(each) for each in ran]
        seen = {each["skill"] for each in ran}
        rest = [self._skipped(entry.slug) for entry in CATALOGUE if entry.slug not in seen]
        return [*rows, *rest]

    def _stage(self, stage: Mapping[str, str]) -> StageRow:
        slug, verdict = stage["skill"], stage["verdict"]
        left = sum(each["skill"] == slug for each in self.decisions.get("eliminated", ()))
        acts = stage["mode"] == "enforce"
        outcome = "Passed" if verdict == "next" else verdict.replace("_", " ").capitalize()
        if left and acts:
            outcome = f"Ruled out {_some(left, 'endpoint')}"
        marked = acts and (bool(left) or verdict != "next")
        return StageRow(
            slug=slug,
            title=_title(slug),
            mode=stage["mode"],
            outcome=outcome,
            origin=self._origin_of(slug, stage["mode"]),
            skipped=False,
            marked=marked,
        )

    def _skipped(self, slug: str) -> StageRow:
        found = self._effective.get(slug)
        if found is None:
            why = "the policy of that time is not kept"
        elif not found.in_ramp:
            why = f"this key is outside the ramp of {found.config.ramp_percent} %"
        elif found.config.mode == "off":
            why = "off here"
        else:
            why = "not asked for this kind of request"
        return StageRow(
            slug=slug,
            title=_title(slug),
            mode="–",
            outcome=f"Skipped: {why}",
            origin=self._origin(slug),
            skipped=True,
            marked=False,
        )

    @cached_property
    def _effective(self) -> Mapping[str, EffectiveSkill]:
        record = self.record
        if record is None or (self.revision is None and record.policy_revision):
            return {}
        try:
            index = PolicyIndex.of(revision_documents(self.revision))
            return effective(index, record.tenant_id, record.key_id, record.model)
        except ValueError:  # published under another schema than this build's
            return {}

    def _origin_of(self, slug: str, mode: str) -> str:
        """Facts of the tenant (its fence) put a skill in force whatever the documents say."""
        found = self._effective.get(slug)
        if found is not None and found.mode != mode:
            return "tenant's own fence"
        return self._origin(slug)

    def _origin(self, slug: str) -> str:
        found = self._effective.get(slug)
        return (
            ""
            if found is None
            else ", ".join(found.origins["mode"]).split("/")[0].removesuffix("s")
        )

    @property
    def candidates(self) -> list[CandidateRow]:
        removed = {each["endpoint_id"]: each for each in self.decisions.get("eliminated", ())}
        ids = dict.fromkeys([*self.decisions.get("candidates", ()), *removed])
        return [self._candidate(each, removed.get(each)) for each in ids]

    def _candidate(self, endpoint_id: str, removed: Mapping[str, str] | None) -> CandidateRow:
        endpoint = self.endpoints.get(endpoint_id)
        picked = self.record is not None and endpoint_id == self.record.endpoint_id
        return CandidateRow(
            id=endpoint_id,
            region=(endpoint.region or "unknown") if endpoint else "gone since",
            pool=endpoint.pool.name if endpoint else "",
            removed_by=_title(removed["skill"]) if removed else "",
            reason=_reason(removed["reason"]) if removed else "",
            picked=picked,
        )

    @property
    def attempts(self) -> list[AttemptRow]:
        """Over all records: a retry that has one of its own stands in it."""
        tries = [
            each for record in self.detail.records for each in record.decisions.get("attempts", ())
        ]
        return [
            AttemptRow(
                place,
                self._place(each["endpoint_id"]),
                str(each["status"]) if each["status"] else "no answer",
                each["error"],
                milliseconds(each["took_us"] / 1000),
            )
            for place, each in enumerate(tries, 1)
        ]


def _title(slug: str) -> str:
    if is_skill(slug):
        return skill(slug).title
    return slug.replace("_", " ").capitalize() or "The gateway"


def _reason(code: str) -> str:
    return _REASONS.get(code, code.replace("_", " "))


def _some(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def mentioned(detail: RequestDetail) -> set[str]:
    """Ids of every endpoint that its decisions speak of."""
    found: set[str] = set()
    for record in detail.records:
        found |= {record.endpoint_id, *record.decisions.get("candidates", ())}
        found |= _ids(record.decisions.get("eliminated", ())) | _ids(
            record.decisions.get("attempts", ())
        )
    return found - {""}


def _ids(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    return {row["endpoint_id"] for row in rows}
