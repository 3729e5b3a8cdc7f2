"""The last thing `make run` says: where to go, and the next three things to try."""

from __future__ import annotations

from pathlib import Path

from console.launcher.runfile import RunFile


def greeting(run: RunFile, home: Path, seconds: float) -> str:
    head = f"\nACE Gateway is ready ({seconds:.0f} s).\n\n  Console  {run.console}\n  Gateway  {run.gateway}\n"
    tail = f"\nEverything above is in {home / 'run.json'}. Ctrl-C stops all; the data stays in {home}.\n"
    if run.admin is None or run.finance is None or run.api_key is None:
        first = f"Open {run.console}. The first account needs the token in {home / 'secrets' / 'setup_token'}."
        return f"{head}\n{first}\n{tail}"
    people = (
        f"\n  Sign in as {run.admin.username} / {run.admin.password}"
        f"\n  or, for spend only, {run.finance.username} / {run.finance.password}\n"
    )
    return head + people + _next_three(run) + tail


def _next_three(run: RunFile) -> str:
    body = f'{{"model": "{run.model}", "messages": [{{"role": "user", "content": "What is the capital of France?"}}]}}'
    return f"""
Try next:

  1. curl {run.gateway}/v1/chat/completions \\
       -H 'Authorization: Bearer {run.api_key}' -H 'Content-Type: application/json' \\
       -d '{body}'

  2. from openai import OpenAI
     client = OpenAI(base_url="{run.gateway}/v1", api_key="{run.api_key}")
     question = [{{"role": "user", "content": "Name three rivers."}}]
     for part in client.chat.completions.create(model="{run.model}", messages=question, stream=True):
         print(part.choices[0].delta.content or "", end="")

  3. Open {run.console} and watch both requests and their cost on the live page.
"""
