"""What the tests of this folder share: one real server, and a model that says what it was told to say."""
import atexit
import functools
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "sdk/python/src"))

from firebreak_server import Server  # noqa: E402
from strands.models import Model  # noqa: E402


@functools.cache
def server():
    made = Server()
    atexit.register(made.stop)
    return made


def address():
    return {"url": server().url, "api_key": server().key, "ca_file": server().ca_file}


class ScriptedModel(Model):
    """Answers with one entry of its script after the other: a text, or a list of calls (tool, input).

    It keeps every list of messages that it was sent, so that a test can count what reaches a model's provider.
    """

    def __init__(self, *script):
        self.script = list(script)
        self.seen = []

    def update_config(self, **config):
        pass

    def get_config(self):
        return {}

    async def structured_output(self, output_model, prompt, system_prompt=None, **options):
        raise NotImplementedError
        yield  # an async generator, as the base class has it

    async def stream(self, messages, tool_specs=None, system_prompt=None, **options):
        self.seen.append(json.dumps(messages, default=str))
        entry = self.script.pop(0)
        yield {"messageStart": {"role": "assistant"}}
        for number, block in enumerate([entry] if isinstance(entry, str) else entry):
            if isinstance(block, str):
                yield {"contentBlockStart": {"start": {}}}
                yield {"contentBlockDelta": {"delta": {"text": block}}}
            else:
                name, given = block
                use = {"name": name, "toolUseId": f"use-{len(self.seen)}-{number}"}
                yield {"contentBlockStart": {"start": {"toolUse": use}}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(given)}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(entry, str) else "tool_use"}}


def results_of(agent):
    """The texts of all tools' results that the agent got, in order."""
    return [part.get("text", json.dumps(part.get("json"))) for message in agent.messages for block in message["content"]
            if "toolResult" in block for part in block["toolResult"]["content"]]
