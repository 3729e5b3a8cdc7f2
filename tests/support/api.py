"""The management API as tests use it: one call a thing, and an answer that is not 2xx fails with its own words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from tests.support.waiting import until


@dataclass(frozen=True)
class IssuedKey:
    id: str
    key: str


class ManagementApi:
    def __init__(self, console_url: str, token: str) -> None:
        self.http = httpx.Client(
            base_url=f"{console_url}/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=20.0,
            trust_env=False,
        )

    def close(self) -> None:
        self.http.close()

    def call(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        answer = self.http.request(method, path, json=body, params=params)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def make_tenant(self, name: str = "Acme", **fields: Any) -> str:
        return str(self.call("POST", "/tenants", {"name": name, **fields})["id"])

    def make_pool(self, model: str, base_urls: list[str], **fields: Any) -> str:
        """One dollar in and two dollars out for a million tokens, in region `local`, unless told otherwise."""
        region = fields.pop("region", "local")
        body: dict[str, Any] = {
            "name": f"pool of {model}",
            "model": model,
            "engine": "vllm",
            "endpoints": [{"base_url": url, "region": region} for url in base_urls],
            "price": {
                "input_microusd_per_mtok": 1_000_000,
                "output_microusd_per_mtok": 2_000_000,
            },
        }
        return str(self.call("POST", "/pools", {**body, **fields})["id"])

    def make_key(self, tenant: str, name: str = "test key", **fields: Any) -> IssuedKey:
        answer = self.call("POST", "/keys", {"tenant": tenant, "name": name, **fields})
        return IssuedKey(str(answer["id"]), str(answer["key"]))

    def revoke_key(self, key_id: str) -> None:
        self.call("POST", f"/keys/{key_id}/revoke", {})

    def set_fence(self, tenant: str, *regions: str) -> None:
        self.call("PATCH", f"/tenants/{tenant}", {"geo_fence": {"allowed_regions": list(regions)}})

    def put_policy(self, scope: str, skills: dict[str, dict[str, Any]]) -> Any:
        return self.call("PUT", f"/policies/{scope}", {"skills": skills})

    def publish(self, note: str = "test") -> int:
        return int(self.call("POST", "/publish", {"note": note})["version"])

    def workers(self) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = self.call("GET", "/workers")
        return answer

    def wait_acked(self, version: int, count: int, within_s: float = 10.0) -> list[dict[str, Any]]:
        """Workers that run `version` or a newer one, once there are `count` of them."""

        def acked() -> list[dict[str, Any]]:
            ready = [
                worker
                for worker in self.workers()
                if worker["state"] == "ack" and worker["actual_version"] >= version
            ]
            return ready if len(ready) >= count else []

        return until(acked, within_s=within_s, what=f"{count} workers acknowledge {version}")

    def request(self, request_id: str) -> dict[str, Any]:
        answer: dict[str, Any] = self.call("GET", f"/requests/{request_id}")
        return answer
