"""Finds the server as the command line does (docs/cli.md, "Finding the server")."""
from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import ConfigurationError

DATA_DIR = "/var/lib/firebreak"


@dataclass(frozen=True)
class ServerAddress:
    """Where the server is, the key to call it with, and the file of certificates to trust."""

    url: str
    api_key: str
    ca_file: str | None = None


def find_server(url: str | None = None, api_key: str | None = None, *, context: str | None = None, ca_file: str | None = None,
                data_dir: str | None = None, environ: Mapping[str, str] | None = None) -> ServerAddress:
    """Arguments come first, then a named context, then the environment, then the current context, then a server of this host."""
    env = os.environ if environ is None else environ
    if context:
        return _with(_context(env, context), api_key, ca_file)
    key = api_key or env.get("FIREBREAK_API_KEY") or None
    trust = ca_file or env.get("FIREBREAK_CA_FILE") or None
    where = url or env.get("FIREBREAK_URL") or None
    directory = pathlib.Path(data_dir or env.get("FIREBREAK_DATA_DIR") or DATA_DIR)
    if where:
        return ServerAddress(where, key or _local_key(directory), trust)
    current = _contexts(env).get("current")
    if current and not data_dir and not env.get("FIREBREAK_DATA_DIR"):
        return _with(_context(env, current), key, trust)
    about = _server_file(directory / "server.json", f"no server is running on {directory}",
                         "start one with 'firebreak serve', set FIREBREAK_URL, or run 'firebreak login URL'")
    return ServerAddress(about["url"], key or _local_key(directory), trust or about.get("caFile"))


def _with(found: ServerAddress, api_key: str | None, ca_file: str | None) -> ServerAddress:
    return ServerAddress(found.url, api_key or found.api_key, ca_file or found.ca_file)


def _contexts_file(env: Mapping[str, str]) -> pathlib.Path | None:
    if env.get("XDG_CONFIG_HOME"):
        return pathlib.Path(env["XDG_CONFIG_HOME"], "firebreak/config.json")
    return pathlib.Path(env["HOME"], ".config/firebreak/config.json") if env.get("HOME") else None


def _contexts(env: Mapping[str, str]) -> dict[str, Any]:
    file = _contexts_file(env)
    if file is None:
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError:
        return {}
    except ValueError as error:
        raise _lost(f"{file}: {error}", "mend or remove the file, then run 'firebreak login URL'") from error
    return found if isinstance(found, dict) else {}


def _context(env: Mapping[str, str], name: str) -> ServerAddress:
    known = _contexts(env).get("contexts") or {}
    if name not in known:
        names = ", ".join(sorted(known))
        repair = f"known are: {names}" if names else f"make one with 'firebreak login URL --context {name}'"
        raise _lost(f"there is no context '{name}'", repair)
    entry = known[name]
    return ServerAddress(entry["url"], entry["apiKey"], entry.get("caFile"))


def _local_key(directory: pathlib.Path) -> str:
    file = directory / "credentials.json"
    found = _server_file(file, f"{file} is not there", "set FIREBREAK_API_KEY, or run 'firebreak login URL'")
    return str(found["apiKey"])


def _server_file(file: pathlib.Path, otherwise: str, repair: str) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except PermissionError as error:
        raise _lost(f"{file} can be read by root only",
                    "run as root, set FIREBREAK_URL and FIREBREAK_API_KEY, or run 'firebreak login URL'") from error
    except (OSError, ValueError) as error:
        raise _lost(otherwise, repair) from error
    return dict(found)


def _lost(what: str, repair: str) -> ConfigurationError:
    return ConfigurationError(f"{what}; {repair}", repair=repair)
