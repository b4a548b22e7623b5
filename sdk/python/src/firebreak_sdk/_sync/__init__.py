# Made by tools/sdk-sync from _async; change that and make it again.
"""The clients, written once: tools/sdk-sync makes firebreak_sdk._sync from these files."""
