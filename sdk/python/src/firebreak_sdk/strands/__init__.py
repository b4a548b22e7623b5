"""Strands Agents in a microVM.

    from strands import Agent
    from firebreak_sdk.strands import FirebreakSandbox

    with FirebreakSandbox() as sandbox:
        agent = Agent(model=..., sandbox=sandbox)

Needs the package strands-agents, 1.62 or newer.
"""
from .sandbox import FirebreakSandbox, HttpResult, SandboxHttpError

__all__ = ["FirebreakSandbox", "HttpResult", "SandboxHttpError"]
