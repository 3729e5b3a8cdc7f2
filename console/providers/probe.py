"""Tests an endpoint before it is saved: name, connection, TLS, model list, one token; each told in plain words.

It connects only to the address that was judged, follows no redirect, trusts no proxy of the environment, and reads
no more than a megabyte.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import httpx
import orjson

from console.errors import InputError
from console.providers import addresses
from console.providers.addresses import Address, BaseURL
from console.settings.operator import Operator

STEP_TIMEOUT_S: Final = 5.0
TOKEN_TIMEOUT_S: Final = 20.0
"""The first token of a model that was just loaded may take its time."""
MAX_ANSWER_BYTES: Final = 1 << 20
_OK: Final = 200
_UNAUTHORISED: Final = (401, 403)

StepName = Literal["dns", "tcp", "tls", "models", "token"]
STEPS: Final[tuple[StepName, ...]] = ("dns", "tcp", "tls", "models", "token")


@dataclass(frozen=True, slots=True)
class Step:
    name: StepName
    state: Literal["passed", "failed", "skipped"]
    detail: str
    took_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Target:
    base_url: str
    engine: str
    model: str
    """Name the engine knows."""
    credential: str | None = None


class _Failed(Exception):  # noqa: N818 - never leaves this module
    """Plain words for why a step did not pass."""


def probe(target: Target, operator: Operator) -> list[Step]:
    """One entry for each of STEPS; after the first failure the rest is skipped. Raises nothing."""
    found: list[Step] = []
    run = _Probe(target, operator)
    works: dict[StepName, Callable[[], str]] = {
        "dns": run.dns,
        "tcp": run.tcp,
        "tls": run.tls,
        "models": run.models,
        "token": run.token,
    }
    for name in STEPS:
        if found and found[-1].state == "failed":
            found += [Step(rest, "skipped", "Not tried.") for rest in STEPS[len(found) :]]
            break
        found.append(_timed(name, works[name]))
    return found


def _timed(name: StepName, work: Callable[[], str]) -> Step:
    began = time.perf_counter()
    try:
        state: Literal["passed", "failed"] = "passed"
        detail = work()
    except (_Failed, InputError) as error:
        state, detail = "failed", str(error)
    return Step(name, state, detail, round((time.perf_counter() - began) * 1000, 1))


class _Probe:
    """State of one run: the judged address is found once and used by every later step."""

    def __init__(self, target: Target, operator: Operator) -> None:
        self._target = target
        self._operator = operator
        self._url: BaseURL | None = None
        self._address: Address | None = None

    def dns(self) -> str:
        url = self._url = addresses.parse(self._target.base_url)
        found = addresses.addresses_of(url)
        if not found:
            raise _Failed(f"The name {url.host} is unknown.")
        addresses.check(url, found, self._operator)
        self._address = found[0]
        return f"{url.host} is {', '.join(str(address) for address in found)}."

    def tcp(self) -> str:
        with self._connect():
            return f"Port {self._known_url.port} accepts connections."

    def tls(self) -> str:
        url = self._known_url
        if url.scheme == "http":
            return "Not used: plain HTTP in a network the operator allows."
        context = ssl.create_default_context()
        try:
            with (
                self._connect() as plain,
                context.wrap_socket(plain, server_hostname=url.host) as tls,
            ):
                return f"{tls.version()}; the certificate fits {url.host}."
        except ssl.SSLCertVerificationError as error:
            raise _Failed(f"The certificate does not fit: {error.verify_message}.") from None
        except (ssl.SSLError, OSError) as error:
            raise _Failed(f"No TLS on this port ({type(error).__name__}).") from None

    def models(self) -> str:
        status, answer = self._ask("GET", "/v1/models", None, STEP_TIMEOUT_S)
        self._status_check(status, "The model list")
        names = list(_model_names(answer))
        if self._target.model in names:
            return f"{self._target.model} is served."
        if not names:
            raise _Failed("The answer holds no list of models.")
        raise _Failed(
            f"{self._target.model} is not served here; there are: {', '.join(names[:10])}."
        )

    def token(self) -> str:
        path = "/v1/messages" if self._target.engine == "anthropic" else "/v1/chat/completions"
        document = {
            "model": self._target.model,
            "max_tokens": 1,
            "messages": [{"role": "user", "content": "Hi"}],
        }
        status, answer = self._ask("POST", path, document, TOKEN_TIMEOUT_S)
        self._status_check(status, "The test request")
        if not isinstance(answer, dict) or not ("choices" in answer or "content" in answer):
            raise _Failed("The answer is not one of this protocol.")
        return "One token came back."

    def _status_check(self, status: int, what: str) -> None:
        if status in _UNAUTHORISED:
            raise _Failed(
                f"{what} was refused with {status}: the provider key is missing or wrong."
            )
        if 300 <= status < 400:  # noqa: PLR2004 - any redirect
            raise _Failed(f"{what} was redirected ({status}); give the address it leads to.")
        if status != _OK:
            raise _Failed(f"{what} failed with status {status}.")

    @property
    def _known_url(self) -> BaseURL:
        if self._url is None or self._address is None:
            raise _Failed("The address is not known.")
        return self._url

    def _connect(self) -> socket.socket:
        url = self._known_url
        try:
            return socket.create_connection((str(self._address), url.port), timeout=STEP_TIMEOUT_S)
        except TimeoutError:
            raise _Failed(
                f"No answer from port {url.port} within {STEP_TIMEOUT_S:.0f} s."
            ) from None
        except OSError as error:
            raise _Failed(f"Port {url.port} refuses: {error.strerror or error}.") from None

    def _ask(
        self, method: str, path: str, document: dict[str, Any] | None, timeout_s: float
    ) -> tuple[int, Any]:
        """To the judged address, with the name in SNI and Host, so that no second look-up can lead elsewhere."""
        url = self._known_url
        host = f"[{self._address}]" if ":" in str(self._address) else str(self._address)
        place = f"{url.scheme}://{host}:{url.port}{url.path}{path}"
        client = httpx.Client(trust_env=False, follow_redirects=False, timeout=timeout_s)
        deadline = time.perf_counter() + timeout_s
        try:
            with (
                client,
                client.stream(
                    method,
                    place,
                    json=document,
                    headers=self._headers(url),
                    extensions={"sni_hostname": url.host},
                ) as answer,
            ):
                return answer.status_code, _read(answer, deadline)
        except httpx.TimeoutException:
            raise _Failed(f"No answer within {timeout_s:.0f} s.") from None
        except httpx.HTTPError as error:
            raise _Failed(f"The connection broke ({type(error).__name__}).") from None

    def _headers(self, url: BaseURL) -> dict[str, str]:
        name = f"[{url.host}]" if ":" in url.host else url.host
        headers = {"host": f"{name}:{url.port}", "user-agent": "ace-gateway-probe"}
        credential = self._target.credential
        if credential is not None and self._target.engine == "anthropic":
            headers["x-api-key"] = credential
        elif credential is not None:
            headers["authorization"] = f"Bearer {credential}"
        if self._target.engine == "anthropic":
            headers["anthropic-version"] = "2023-06-01"
        return headers


def _read(answer: httpx.Response, deadline: float) -> Any:
    body = bytearray()
    for chunk in answer.iter_bytes():
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise _Failed("The answer is longer than a megabyte.")
        if time.perf_counter() > deadline:
            raise _Failed("The answer does not end.")
    try:
        return orjson.loads(bytes(body))
    except orjson.JSONDecodeError:
        return None


def _model_names(answer: Any) -> Iterator[str]:
    if isinstance(answer, dict) and isinstance(answer.get("data"), list):
        for entry in answer["data"]:
            if isinstance(entry, dict) and isinstance(entry.get("id"), str):
                yield entry["id"]
