"""Differences between us and buildah that are meant, one reason each. A row that no longer occurs fails the test, as does a
difference that no row has. `*` stands for any text."""

EXPLAINED = []
