"""The clients, written once: tools/sdk-sync makes firebreak_sdk._sync from these files."""
