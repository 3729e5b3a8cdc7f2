"""Working calls of the gateway in the languages people use, with the address of this installation in them."""

from __future__ import annotations

import json
from dataclasses import dataclass

ENV = "ACE_API_KEY"


@dataclass(frozen=True, slots=True)
class Snippet:
    slug: str
    title: str
    text: str


def snippets(gateway_url: str, model: str, key: str = "") -> list[Snippet]:
    """The key is read from ACE_API_KEY, so that it stays out of shell history and source; only `.env` holds it."""
    base = gateway_url.rstrip("/")
    return [
        Snippet("curl", "curl", _curl(base, model)),
        Snippet("env", ".env", f"{ENV}={key or 'ace_live_…'}\nOPENAI_BASE_URL={base}/v1\n"),
        Snippet("python", "Python", _python(base, model)),
        Snippet("node", "Node", _node(base, model)),
    ]


def _curl(base: str, model: str) -> str:
    body = json.dumps(
        {"model": model, "messages": [{"role": "user", "content": "Hello"}]}, indent=2
    )
    return (
        f"curl {base}/v1/chat/completions \\\n"
        f'  -H "Authorization: Bearer ${ENV}" \\\n'
        '  -H "Content-Type: application/json" \\\n'
        f"  -d '{body}'\n"
    )


def _python(base: str, model: str) -> str:
    return (
        "import os\n"
        "from openai import OpenAI\n\n"
        f'client = OpenAI(base_url={json.dumps(base + "/v1")}, api_key=os.environ["{ENV}"])\n'
        "stream = client.chat.completions.create(\n"
        f"    model={json.dumps(model)},\n"
        '    messages=[{"role": "user", "content": "Hello"}],\n'
        "    stream=True,\n"
        ")\n"
        "for chunk in stream:\n"
        '    print(chunk.choices[0].delta.content or "" if chunk.choices else "", end="")\n'
    )


def _node(base: str, model: str) -> str:
    return (
        'import OpenAI from "openai";\n\n'
        f"const client = new OpenAI({{ baseURL: {json.dumps(base + '/v1')}, apiKey: process.env.{ENV} }});\n"
        "const answer = await client.chat.completions.create({\n"
        f"  model: {json.dumps(model)},\n"
        '  messages: [{ role: "user", content: "Hello" }],\n'
        "});\n"
        "console.log(answer.choices[0].message.content);\n"
    )
