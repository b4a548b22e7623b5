"""Differences of two results as lines of text, and the table that explains some of them."""
import re

import explained


def of_trees(ours, theirs):
    """(path, difference) of all that is not the same."""
    found = []
    for path in sorted({*ours, *theirs}):
        a, b = ours.get(path), theirs.get(path)
        if a == b:
            continue
        if a is None or b is None:
            found.append((path, f"{path}: only {'buildah' if a is None else 'ours'}: {b if a is None else a}"))
            continue
        for field in ("type", "mode", "owner", "content", "links"):
            x, y = getattr(a, field), getattr(b, field)
            if x != y:
                x, y = (f"{value:04o}" if field == "mode" else value for value in (x, y))
                found.append((path, f"{path}: {field} {x or 'none'}, buildah {y or 'none'}"))
    return found


def of_configs(ours, theirs):
    found = []
    for key in sorted({*ours, *theirs}):
        a, b = ours.get(key), theirs.get(key)
        if isinstance(a or {}, dict) and isinstance(b or {}, dict):
            a, b = a or {}, b or {}
            found += [f"{key}.{name}: {a.get(name)!r}, buildah {b.get(name)!r}" for name in sorted({*a, *b}) if a.get(name) != b.get(name)]
        elif a != b:
            found.append(f"{key}: {a!r}, buildah {b!r}")
    return found


class Table:
    """Which rows were used, and by which cases they could have been."""

    def __init__(self, rows=None):
        self.rows = [(case, re.compile(".*".join(map(re.escape, text.split("*"))) + r"\Z", re.S), text, why)
                     for case, text, why in (explained.EXPLAINED if rows is None else rows)]
        self.used = set()

    def unexplained(self, case, differences):
        left = []
        for difference in differences:
            rows = [text for name, pattern, text, _ in self.rows if name == case and pattern.match(difference)]
            self.used.update((case, text) for text in rows)
            if not rows:
                left.append(difference)
        return left

    def explainer(self, names, difference):
        """The case with a row for it; empty: none."""
        return next((name for name, pattern, _, _ in self.rows if name in names and pattern.match(difference)), "")

    def idle(self, case):
        return [text for name, _, text, _ in self.rows if name == case and (case, text) not in self.used]
