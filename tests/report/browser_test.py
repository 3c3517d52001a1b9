"""The report in a browser: its scripts run without an error, its charts are drawn, nothing is cut at any width, and its controls work.
Usage: browser_test.py PROGRAM EXAMPLES_FOLDER [unittest's arguments]. Needs chromium (scripts/packages-nightly.txt)."""
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM, EXAMPLES = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SCREEN = 1080  # pixels of a screen's height
MOST_SCREENS = 8  # of the report of 64 devices

CATCH = """<script>
window.failures = [];
window.addEventListener("error", (event) => failures.push(event.message));
</script>"""

# Runs after the page's own scripts; what it finds becomes the last element of the page.
PROBE = """<script>
function probe() {
  const found = { width: document.documentElement.clientWidth, wide: document.documentElement.scrollWidth,
                  height: document.documentElement.scrollHeight };
  const drawn = () => charts.length, lines = () => [...document.querySelectorAll("#comparison tbody tr")].map((line) => Number(line.dataset.row));
  const shown = (section) => !section.hidden && section.getClientRects().length > 0;
  found.charts = drawn();
  found.empty = [...document.querySelectorAll("section")].filter((section) => shown(section) && section.innerText.trim().length < 20).map((s) => s.id);
  found.blank = charts.filter((chart) => {
    const { width, height } = chart.canvas;
    if (!width || !height) return true;
    const pixels = chart.canvas.getContext("2d").getImageData(0, 0, width, height).data;
    return !pixels.some((value) => value !== 0);
  }).length;
  found.rows = lines();
  const headings = [...document.querySelectorAll("#comparison thead th")];
  const press = (heading) => heading.querySelector(".sort").click();
  const texts = (heading) => [...document.querySelectorAll("#comparison tbody tr")].map((line) => line.cells[headings.indexOf(heading)].textContent);
  const time = headings.find((cell) => cell.innerText.startsWith("time per step")), name = headings[0];
  press(time);
  found.times = texts(time);
  found.sort = time.getAttribute("aria-sort");
  press(name);
  press(name);
  found.names = texts(name);
  press(name);
  found.restored = lines();
  const chips = [...document.querySelectorAll("#chips .chip[aria-pressed]")];
  found.chips = chips.length;
  if (chips.length) {
    chips[0].click();
    found.hidden = document.getElementById("hidden-count").textContent;
    document.getElementById("show-all").click();
    found.all = document.getElementById("hidden-count").textContent;
  }
  const filter = document.querySelector(".filter");
  if (filter) {
    filter.value = "pipeline 8";
    filter.dispatchEvent(new Event("input"));
    found.left = [...document.querySelectorAll("#comparison tbody tr")].filter(shown).length;
    found.filtered = shownRows().map((row) => row.label);
    filter.value = "";
    filter.dispatchEvent(new Event("input"));
  }
  const loss = charts.find((chart) => chart.canvas.closest("#loss-steps"));
  if (loss) {
    const view = () => ["x", "y"].map((axis) => [loss.scales[axis].min, loss.scales[axis].max]);
    const buttons = [...document.querySelectorAll("#loss-steps button")], box = loss.canvas.closest(".canvas");
    found.zoom = [view()];
    buttons[1].click();
    found.zoom.push(view());
    for (let i = 0; i < 20; ++i) box.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
    found.zoom.push(view());
    buttons[2].click();
    found.zoom.push(view());
  }
  window.dispatchEvent(new Event("beforeprint"));
  found.printed_tables = document.querySelectorAll(".scroll table").length;
  window.dispatchEvent(new Event("afterprint"));
  found.redrawn = drawn();
  found.failures = failures;
  const out = document.createElement("pre");
  out.id = "probe";
  out.textContent = JSON.stringify(found);
  document.body.append(out);
}
setTimeout(probe, 1000);
</script>"""


def trireme(*arguments):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise AssertionError(f"trireme {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def opened(report, width, *flags):
    """What the probe finds in the page in a window of this width."""
    with open(report, encoding="utf-8") as file:
        page = file.read()
    page = page.replace("<style>", CATCH + "<style>", 1).replace("</body>", PROBE + "</body>")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)
        done = subprocess.run(["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile",
                               f"--window-size={width},{SCREEN}", "--virtual-time-budget=10000", "--dump-dom", *flags, f"file://{path}"],
                              capture_output=True, text=True, timeout=300)
    found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
    if not found:
        raise AssertionError(f"the page's scripts did not end: {done.stderr[-2000:]}")
    return json.loads(html.unescape(found.group(1)))


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("chromium"):
            raise AssertionError("chromium was not found: scripts/setup.sh packages-nightly.txt installs it")
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.simulated = os.path.join(cls.folder.name, "simulated")
        trireme("simulate", os.path.join(EXAMPLES, "mnist.toml"), "--cluster", os.path.join(EXAMPLES, "clusters/8xa100.cluster.toml"),
                "--devices", "1,2,4,8", "--strategies", "single,data,tensor,pipeline,hybrid,1f1b,zero3", "--set", "batch=128", "--out", cls.simulated)
        cls.compared = os.path.join(cls.folder.name, "compared")
        trireme("compare", os.path.join(EXAMPLES, "mnist.toml"), "--devices", "2", "--strategies", "single,data,1f1b", "--steps", "12",
                "--set", "data.name=digits", "--set", "evaluate_every=4 steps", "--out", cls.compared)

    def check(self, found):
        self.assertEqual(found["failures"], [])
        self.assertLessEqual(found["wide"], found["width"], "the page is wider than the window")
        self.assertGreater(found["charts"], 3)
        self.assertEqual(found["redrawn"], found["charts"])
        self.assertEqual(found["blank"], 0, "a chart is not drawn")
        self.assertEqual(found["empty"], [], "sections without content")
        self.assertEqual(found["sort"], "ascending")
        times = [float(text.split()[0]) for text in found["times"] if text != "–"]
        self.assertEqual(times, sorted(times))
        self.assertEqual(found["times"][:len(times)], [text for text in found["times"] if text != "–"], "rows without a time come last")
        self.assertEqual(found["names"], sorted(found["names"], reverse=True))
        self.assertEqual(found["restored"], found["rows"])
        self.assertIn("hidden", found["hidden"])
        self.assertEqual(found["all"], "")

    def test_simulated_rows(self):
        for width in (1280, 390):
            with self.subTest(width=width):
                found = opened(os.path.join(self.simulated, "report.html"), width)
                self.check(found)
                self.assertTrue(found["filtered"])
                self.assertEqual(found["left"], len(found["filtered"]), "the table shows other rows than the charts")
                for label in found["filtered"]:
                    self.assertIn("pipeline", label)
                    self.assertIn("8", label)
                if width > 1000:
                    self.assertLessEqual(found["height"], MOST_SCREENS * SCREEN)

    def test_compared_rows(self):
        for width in (1280, 390):
            with self.subTest(width=width):
                found = opened(os.path.join(self.compared, "report.html"), width)
                self.check(found)
                whole, near, moved, again = found["zoom"]
                self.assertEqual(whole, again)
                self.assertEqual(whole[0][0], 0)
                self.assertAlmostEqual(whole[0][1], 12 * 1.02)
                self.assertLess(near[0][1] - near[0][0], 12 * 0.8)
                self.assertAlmostEqual(moved[0][1], whole[0][1])
                self.assertAlmostEqual(moved[0][1] - moved[0][0], near[0][1] - near[0][0])
                self.assertLess(moved[1][1], whole[1][1], "the loss axis does not follow")

    def test_two_runs(self):
        out = os.path.join(self.folder.name, "two.html")
        trireme("report", self.compared, self.simulated, "--out", out)
        for width in (1280, 390):
            with self.subTest(width=width):
                found = opened(out, width)
                self.assertEqual(found["failures"], [])
                self.assertLessEqual(found["wide"], found["width"])

    def test_on_paper(self):
        """Nothing is cut on A4: every word of the tables is in the PDF."""
        pdf = os.path.join(self.folder.name, "report.pdf")
        subprocess.run(["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder.name}/profile",
                        "--virtual-time-budget=10000", "--no-pdf-header-footer", f"--print-to-pdf={pdf}",
                        f"file://{self.compared}/report.html"], capture_output=True, check=True, timeout=300)
        text = subprocess.run(["pdftotext", "-layout", pdf, "-"], capture_output=True, text=True, check=True).stdout
        for words in ("Verdict", "Comparison", "time per step", "top-5", "pipeline 2, 8 micro-batches, 1f1b", "not reached"):
            self.assertIn(words, re.sub(r"\s+", " ", text))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
