"""The plots in docs/plots are what tools/plot-bench draws from the figures beside them. Run by run_pages.py."""
import json
import pathlib
import subprocess
import tempfile
import unittest
import xml.dom.minidom

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PLOTS = ROOT / "docs" / "plots"


def draw(figures, directory):
    file = pathlib.Path(directory) / "bench.json"
    file.write_text(json.dumps(figures))
    subprocess.run([ROOT / "tools" / "plot-bench", file, directory], stdout=subprocess.DEVNULL, timeout=30, check=True)
    return {path.name: path.read_text() for path in pathlib.Path(directory).glob("*.svg")}


class Plots(unittest.TestCase):
    def test_the_plots_are_of_the_figures(self):
        with tempfile.TemporaryDirectory() as directory:
            drawn = draw(json.loads((PLOTS / "bench.json").read_text()), directory)
        self.assertEqual(sorted(drawn), ["memory.svg", "times.svg"])
        for name, text in drawn.items():
            self.assertEqual((PLOTS / name).read_text(), text, f"draw docs/plots/{name} again: tools/plot-bench docs/plots/bench.json docs/plots")

    def test_figures_that_are_missing_are_left_out(self):
        with tempfile.TemporaryDirectory() as directory:
            drawn = draw({"qemu_floor": {"p50": 17.4, "p95": 20, "n": 20}, "require: x": {"value": 1, "limit": 2, "met": True}}, directory)
        self.assertEqual(list(drawn), ["times.svg"])
        self.assertEqual(len(xml.dom.minidom.parseString(drawn["times.svg"]).getElementsByTagName("rect")), 2)
