// Draws the report's charts from the JSON in #data; names are those of run.json.
"use strict";

// Okabe and Ito's palette, with dark yellow instead of yellow. Dashes distinguish lines that colours do not.
const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#b3a000", "#7f7f7f"];
const DASHES = [[], [7, 3], [2, 3], [10, 3, 2, 3], [14, 4], [4, 4], [1, 2], [8, 2, 1, 2]];
const CATEGORIES = ["weights", "gradients", "optimizer", "activations", "buffers"];
const BAR_HEIGHT = 38, BAR_AXES = 110, MANY_ALIKE = 4;

const result = JSON.parse(document.getElementById("data").textContent);
const charts = [];

function element(tag, className) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  return node;
}
function cssColour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
function formatNumber(value) {
  const size = Math.abs(value);
  return value.toLocaleString("en", size >= 1e4 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: size >= 1000 ? 5 : 3 });
}
function formatBytes(bytes) {
  const unit = byteUnit(bytes);
  return `${formatNumber(bytes / unit.size)} ${unit.name}`;
}
function byteUnit(largest) {
  const units = [["B", 1], ["KiB", 2 ** 10], ["MiB", 2 ** 20], ["GiB", 2 ** 30], ["TiB", 2 ** 40]];
  const [name, size] = units.filter(([, s]) => largest >= s).pop() || units[0];
  return { name, size };
}
function timeUnit(largest) {
  const units = [["µs", 1e-6], ["ms", 1e-3], ["s", 1]];
  const [name, size] = units.filter(([, s]) => largest >= s).pop() || units[0];
  return { name, size };
}
function colourOf(row) { return PALETTE[result.rows.indexOf(row) % PALETTE.length]; }
/// Colour of a line for all rows of a strategy: that of its first row in the other charts.
function colourOfName(name) { return colourOf(result.rows.find((r) => r.name === name)); }
function shortName(row) { return row.short_label; }

/// Draws a chart in the box `id`, or a sentence if there is nothing to draw.
function draw(id, any, label, config, height) {
  const box = document.getElementById(id);
  box.replaceChildren();
  if (!any) {
    box.style.height = "auto";
    box.append(Object.assign(element("p", "none"), { textContent: result.simulated ? "Not simulated." : "Not measured." }));
    return;
  }
  if (height) box.style.height = `${height}px`;
  const canvas = element("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  box.append(canvas);
  charts.push(new Chart(canvas, config));
}

function axis(text, more) { return { title: { display: true, text }, beginAtZero: true, ...more }; }

function barOptions(xTitle, stacked, tooltip) {
  return {
    indexAxis: "y", animation: false, responsive: true, maintainAspectRatio: false,
    scales: { x: axis(xTitle, { stacked }), y: { stacked, grid: { display: false } } },
    plugins: { legend: { display: stacked, position: "bottom", labels: { boxWidth: 14 } }, tooltip: { callbacks: { label: tooltip } } },
  };
}

function drawTimes() {
  const rows = result.rows.filter((r) => r.step_seconds && r.step_seconds.median !== null);
  const unit = timeUnit(Math.max(...rows.map((r) => r.step_seconds.p90 ?? r.step_seconds.median)));
  const scaled = (v) => v / unit.size, predicted = !result.simulated && rows.some((r) => r.predicted);
  const shown = result.simulated ? "simulated" : "median";  // a simulated step has one time, without percentiles
  document.getElementById("predicted-note").hidden = !predicted;
  draw("time", rows.length, `Time per step, ${shown}: ${rows.map((r) => `${r.label} ${formatNumber(scaled(r.step_seconds.median))} ${unit.name}`).join(", ")}`, {
    type: "bar",
    data: { labels: rows.map(shortName), datasets: [
      ...(predicted ? [{ type: "line", showLine: false, label: "predicted", pointStyle: "rectRot", pointRadius: 6, pointHitRadius: 8, borderColor: cssColour("--ink"),
        backgroundColor: cssColour("--paper"), data: rows.map((r) => r.predicted ? scaled(r.predicted.step_seconds) : NaN) }] : []),
      ...(result.simulated ? [] : [{ label: "10th to 90th percentile", data: rows.map((r) => [scaled(r.step_seconds.p10), scaled(r.step_seconds.p90)]),
        backgroundColor: cssColour("--ink"), grouped: false, barPercentage: 0.12, minBarLength: 2 }]),
      { label: shown, data: rows.map((r) => scaled(r.step_seconds.median)), backgroundColor: rows.map(colourOf), grouped: false, barPercentage: 0.7 },
    ] },
    options: barOptions(`time per step (${unit.name})`, false, (item) => {
      const v = item.raw;
      if (item.dataset.label === "predicted") return `predicted: ${formatNumber(v)} ${unit.name}`;
      return Array.isArray(v) ? `10th to 90th percentile: ${formatNumber(v[0])} to ${formatNumber(v[1])} ${unit.name}` : `${shown}: ${formatNumber(v)} ${unit.name}`;
    }),
  }, BAR_AXES - 30 + BAR_HEIGHT * rows.length);
}

function drawSplit() {
  const rows = result.rows.filter((r) => r.busy_share.some((v) => v !== null));
  const percents = rows.map((r) => {
    const known = r.busy_share.filter((v) => v !== null), busy = known.reduce((a, b) => a + b, 0) / known.length;
    const hidden = Math.min(r.communication.hidden_share ?? 0, busy), exposed = r.communication.exposed_share ?? 0;
    const loading = r.loading_share ?? 0;
    return [busy - hidden, hidden, loading, exposed, Math.max(0, 1 - busy - loading - exposed)].map((v) => 100 * v);
  });
  const parts = [["computing", "#0072b2"], ["computing, communication hidden", "#56b4e9"], ["loading", "#999999"],
                 ["communication exposed", "#d55e00"], ["idle", cssColour("--line")]];
  draw("split", rows.length, `Share of step time: ${rows.map((r, i) => `${r.label} ${parts.map(([n], k) => `${n} ${formatNumber(percents[i][k])} %`).join(", ")}`).join("; ")}`, {
    type: "bar",
    data: { labels: rows.map(shortName), datasets: parts.map(([label, backgroundColor], k) => ({ label, backgroundColor, data: percents.map((p) => p[k]), barPercentage: 0.7 })) },
    options: { ...barOptions("share of step time (%)", true, (item) => `${item.dataset.label}: ${formatNumber(item.raw)} %`) },
  }, BAR_AXES + 30 + BAR_HEIGHT * rows.length);
  if (rows.length) charts[charts.length - 1].options.scales.x.max = 100;
}

/// Lines. If they may coincide, the widest lie below and remain visible at the edges.
function lineSets(rows, points, coincide) {
  const step = coincide ? Math.min(1.6, 6 / Math.max(rows.length - 1, 1)) : 0;
  return rows.map((row, i) => ({
    label: row.label, data: points(row), borderColor: colourOf(row), backgroundColor: colourOf(row), order: rows.length - i,
    borderWidth: 1.8 + step * (rows.length - 1 - i), borderDash: coincide ? [] : DASHES[i % DASHES.length], borderJoinStyle: "round",
    pointRadius: 0, pointHitRadius: 8, spanGaps: false,
  }));
}

function lineOptions(xTitle, yTitle, yMore) {
  return {
    animation: false, responsive: true, maintainAspectRatio: false, parsing: false, normalized: true, interaction: { mode: "nearest", axis: "x", intersect: false },
    scales: { x: { type: "linear", ...axis(xTitle) }, y: { ...axis(yTitle), ...yMore } },
    plugins: { legend: { position: "bottom", labels: { boxWidth: 14, sort: (a, b) => a.datasetIndex - b.datasetIndex } }, decimation: { enabled: true, algorithm: "min-max" },
               tooltip: { callbacks: { title: (items) => items.length ? `${xTitle}: ${formatNumber(items[0].parsed.x)}` : "",
                                       label: (item) => `${item.dataset.label}: ${formatNumber(item.parsed.y)}` } } },
  };
}

/// One line per strategy; drawn only if the single device ran and at least one other strategy ran.
function drawSpeedup() {
  const single = result.rows.find((r) => r.samples_per_second && r.strategy === "single" && r.devices === 1);
  const rows = result.rows.filter((r) => r.samples_per_second && single && r.times_are === single.times_are);  // only times of one clock compare
  const names = [...new Set(rows.filter((r) => r !== single).map((r) => r.name))], most = Math.max(1, ...rows.map((r) => r.devices));
  document.getElementById("speedup-section").hidden = !single || !names.length;
  if (!single || !names.length) return;
  const shared = rows.some((r) => r.oversubscribed);
  document.getElementById("shared-cores").hidden = !shared;
  const sets = names.map((name, i) => {
    const of = rows.filter((r) => r.name === name && r !== single).sort((a, b) => a.devices - b.devices), colour = colourOfName(name);
    const points = [single, ...of.filter((r) => r.devices > 1)].map((r) => ({ x: r.devices, y: r.samples_per_second / single.samples_per_second, shared: r.oversubscribed }));
    return { label: name, data: points, borderColor: colour, borderDash: DASHES[i % DASHES.length], borderWidth: 2, pointRadius: 4, pointHitRadius: 8,
             backgroundColor: colour, pointBackgroundColor: points.map((p) => p.shared ? cssColour("--paper") : colour) };
  });
  sets.push({ label: "ideal", data: [{ x: 1, y: 1 }, { x: most, y: most }], borderColor: cssColour("--line"), borderWidth: 1.5, pointRadius: 0 });
  draw("speedup", true, `Speedup over one device: ${rows.filter((r) => r !== single).map((r) => `${r.label} ${formatNumber(r.samples_per_second / single.samples_per_second)}`).join(", ")}`, {
    type: "line", data: { datasets: sets }, options: lineOptions("devices", "speedup"),
  });
  const x = charts[charts.length - 1].options.scales.x;
  Object.assign(x, { min: 1, max: most, ticks: { precision: 0 } });
}

function drawLoss(id, xTitle, column) {
  const rows = result.rows.filter((r) => r.curve.length), coincide = column === 0 && !rows.some((r) => r.replicas);
  const logarithmic = document.getElementById("logarithmic").checked;
  const points = (row) => row.curve.filter((p) => p[column] !== null).map((p) => ({ x: p[column], y: p[2] === null ? NaN : p[2] }));
  draw(id, rows.length, `Training loss against ${xTitle} for ${rows.map((r) => r.label).join(", ")}; the last values are in the table`, {
    type: "line", data: { datasets: lineSets(rows, points, coincide) },
    options: lineOptions(xTitle, "training loss", logarithmic ? { type: "logarithmic", beginAtZero: false } : {}),
  });
}

/// The quantities that the chart of the test set can show: the task's metrics, the main one first, and the loss.
const testNumbers = [...result.metrics, { name: "loss", title: "loss", is_share: false }];
function testNumber(evaluation, kind) {
  if (kind.name === "loss") return evaluation.loss;
  const metric = evaluation.metrics.find((m) => m.name === kind.name);
  return metric ? metric.value : null;
}

function fillMetricChoice() {
  const choice = document.getElementById("metric");
  for (const kind of testNumbers) choice.append(Object.assign(element("option"), { value: kind.name, textContent: kind.title }));
  choice.addEventListener("change", drawAll);
  document.querySelector("#against option[value=seconds]").textContent = timeTitle(result.rows, "s");
}

function drawMetric() {
  const chosen = document.getElementById("metric").value, kind = testNumbers.find((k) => k.name === chosen) || testNumbers[0];
  const rows = result.rows.filter((r) => r.evaluations.length), scale = kind.is_share ? 100 : 1, title = `test ${kind.title}`;
  const against = document.getElementById("against"), xTitle = against.selectedOptions[0].textContent;
  const points = (row) => row.evaluations.map((e) => ({ x: e[against.value], y: testNumber(e, kind) })).filter((p) => p.x !== null && p.y !== null)
    .map((p) => ({ x: p.x, y: scale * p.y }));
  document.getElementById("h-metric").textContent = `Test ${kind.title}`;
  for (const id of ["metric-choice", "against-choice"]) document.getElementById(id).hidden = !rows.length;
  const sets = lineSets(rows, points, false).map((set) => ({ ...set, pointRadius: 3 }));
  draw("metric-chart", rows.length, `Test ${kind.title} against ${xTitle} for ${rows.map((r) => r.label).join(", ")}`, {
    type: "line", data: { datasets: sets },
    options: lineOptions(xTitle, kind.is_share ? `${title} (%)` : title, { beginAtZero: false }),
  });
}

/// One bar per device; one bar for MANY_ALIKE or more consecutive devices with the same memory, as in the table.
function memoryBars(row) {
  const alike = (a, b) => [...CATEGORIES, "peak"].every((name) => a[name] === b[name]), bars = [];
  for (let i = 0, end = 0; i < row.memory_bytes.length; i = end) {
    const use = row.memory_bytes[i];
    for (end = i + 1; end < row.memory_bytes.length && alike(row.memory_bytes[end], use);) ++end;
    if (end - i < MANY_ALIKE) end = i + 1;
    bars.push({ name: row.memory_bytes.length === 1 ? shortName(row) : `${shortName(row)}: ${end === i + 1 ? i : `${i} to ${end - 1}`}`, use });
  }
  return bars;
}

function drawMemory() {
  const devices = result.rows.flatMap(memoryBars);
  const unit = byteUnit(Math.max(...devices.map((d) => d.use.peak), 0));
  draw("memory", devices.length, `Peak memory per device: ${devices.map((d) => `${d.name} ${formatBytes(d.use.peak)}`).join(", ")}`, {
    type: "bar",
    data: { labels: devices.map((d) => d.name), datasets: CATEGORIES.map((label, k) => ({ label, data: devices.map((d) => d.use[label] / unit.size), backgroundColor: PALETTE[k], barPercentage: 0.8 })) },
    options: barOptions(`memory (${unit.name})`, true, (item) => `${item.dataset.label}: ${formatNumber(item.raw)} ${unit.name}`),
  }, BAR_AXES + 24 * devices.length);
}

function drawTimelines() {
  const rows = result.rows.filter((r) => hasTimeline(r) || hasSchedule(r)), holder = document.getElementById("timelines");
  holder.replaceChildren();
  drawScheduleLegend(rows.filter(hasSchedule));
  drawTimelineLegend(rows.filter(hasTimeline), rows.some(hasSchedule));
  for (const row of rows) {
    holder.append(Object.assign(element("h3"), { textContent: row.label }));
    if (hasSchedule(row)) charts.push(drawSchedule(row, holder));
    if (hasTimeline(row)) charts.push(drawTimeline(row, holder));
  }
  if (!rows.some(hasTimeline)) holder.append(Object.assign(element("p", "none"), { textContent: "No step was traced." }));
}

function drawAll() {
  for (const chart of charts.splice(0)) chart.destroy();
  Object.assign(Chart.defaults, { color: cssColour("--soft"), borderColor: cssColour("--line") });
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  drawTimes();
  drawSpeedup();
  drawSplit();
  drawBlocks();
  drawLoss("loss-steps", "steps", 0);
  drawLoss("loss-seconds", timeTitle(result.rows, "s"), 1);
  drawMetric();
  drawWorkers();
  drawStaleness();
  drawMemory();
  drawTimelines();
  for (const chart of charts) chart.update("none");
}

fillMetricChoice();
document.getElementById("against").addEventListener("change", drawAll);
document.getElementById("logarithmic").addEventListener("change", drawAll);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
drawAll();
