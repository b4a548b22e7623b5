"""Firebreak for Python: microVMs for code that nobody trusts.

    from firebreak_sdk import Sandbox
    with Sandbox() as box:
        print(box.run("print(6*7)").stdout)
"""
from . import errors, models
from ._async.client import AsyncClient
from ._async.commands import AsyncCommandStream, AsyncProcess
from ._async.contexts import AsyncCodeStream, AsyncContext
from ._async.sandbox import AsyncSandbox
from ._async.sessions import AsyncSession
from ._async.tokens import Endpoint
from ._find import ServerAddress, find_server
from ._policy import RetryPolicy
from ._sync.client import Client
from ._sync.commands import CommandStream, Process
from ._sync.contexts import CodeStream, Context
from ._sync.sandbox import Sandbox
from ._sync.sessions import Session
from .errors import FirebreakError
from .progress import Progress
from .results import Artifact, CommandResult, Exit, Gap, Output, RunResult

__version__ = "0.1.0"

__all__ = [
    "Artifact", "AsyncClient", "AsyncCodeStream", "AsyncCommandStream", "AsyncContext", "AsyncProcess", "AsyncSandbox", "AsyncSession",
    "Client", "CodeStream", "CommandResult", "CommandStream", "Context", "Endpoint", "Exit", "FirebreakError", "Gap", "Output", "Process",
    "Progress", "RetryPolicy", "RunResult", "Sandbox", "ServerAddress", "Session", "errors", "find_server", "models",
]
