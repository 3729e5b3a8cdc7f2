"""No set of documents, modes and ramps lets a request out of its tenant's fence."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.compiler import PolicyIndex, stages
from policies.contract.facts import EndpointFacts, TenantFacts
from policies.merge import in_ramp
from policies.schema.snapshot import PolicyDocument
from tests.policies.host import FakeHost

REGIONS = ("a-1", "b-1", "c-1")
SCOPES = ("global", "tenants/ten_1", "keys/key_1", "models/m", "tenants/ten_2", "keys/key_2")
MINE = SCOPES[:4]
MODES = ("off", "observe", "shadow", "enforce")

fences = st.none() | st.lists(st.sampled_from(REGIONS), unique=True)
block = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(MODES),
        "ramp_percent": st.sampled_from((0, 50, 100)),
        "allowed_regions": fences,
    },
)
documents = st.dictionaries(st.sampled_from(SCOPES), block)


def oracle(found: dict[str, dict[str, Any]], tenant: list[str] | None, region: str | None) -> bool:
    """Whether a request of key_1 for model m may go to `region`, worked out the long way."""
    mine = [found[scope] for scope in MINE if scope in found]
    mode = max((each["mode"] for each in mine if "mode" in each), key=MODES.index, default="off")
    ramps = [each["ramp_percent"] for each in mine if "ramp_percent" in each]
    enforced = mode == "enforce" and in_ramp("geo_residency", "key_1", max(ramps, default=100))
    if tenant is None and not enforced:
        return True
    said = (
        [each["allowed_regions"] for each in mine if "allowed_regions" in each] if enforced else []
    )
    allowed = [regions for regions in (tenant, *said) if regions is not None]
    return region is not None and all(region in regions for regions in allowed)


@settings(max_examples=1_000)
@given(documents, fences)
def test_enforced_stages_agree_with_the_long_way(
    found: dict[str, dict[str, Any]], tenant: list[str] | None
) -> None:
    index = PolicyIndex.of(
        [PolicyDocument(scope=each, skills={"geo_residency": found[each]}) for each in found]
    )
    facts = TenantFacts("ten_1", None if tenant is None else tuple(tenant))
    enforced = [
        stage.skill.load_runtime()(stage.plan, FakeHost())
        for stage in stages(index, facts, "key_1", "m")
        if stage.mode == "enforce"
    ]
    for region in (*REGIONS, None):
        endpoint = EndpointFacts("ep_1", "pool_1", "m", "vllm", region)
        passes = not any(runtime.rejects(endpoint) for runtime in enforced)
        assert passes is oracle(found, tenant, region)
