// Lines: speedup, training loss, results on the test set.
"use strict";

const LEAST_POINTS = 100;        // shorter curves are not smoothed unless asked
const USUAL_SMOOTHING = 0.6;     // TensorBoard's
const MOST_FAINT = 6;            // with more lines the unsmoothed ones below them would hide them
const BEHIND_LAST = 1.02;        // where the time axis ends, by the last point: it is drawn whole
const TABLE_POINTS = 12;         // columns of a curve's table
const LEAST_SPAN = { share: 10, other: 0.1 };  // of an axis: percentage points; share of the greatest value

/// Lines. If they may coincide, the widest lie below and remain visible at the edges.
function lineSets(rows, points, coincide) {
  const step = coincide ? Math.min(1.6, 6 / Math.max(rows.length - 1, 1)) : 0;
  return rows.map((row, i) => ({
    label: row.label, data: points(row), borderColor: colourOf(row), backgroundColor: colourOf(row), order: rows.length - i,
    borderWidth: 1.8 + step * (rows.length - 1 - i), borderDash: coincide ? [] : dashOf(row), borderJoinStyle: "round",
    pointRadius: 0, pointHitRadius: 8, spanGaps: false,
  }));
}

/// A key of lines, which several charts share: a colour for each strategy, and dashes for each number of devices and run.
function lineKey(id, rows) {
  const pairs = [...new Map(rows.map((r) => [r.variant, [colourOf(r), r.variant]])).values()];
  fillLegend(id, "", pairs);
  const kinds = [...new Map(rows.map((r) => [`${r.devices} ${r.run}`, r])).values()].sort((a, b) => a.run - b.run || a.devices - b.devices);
  if (kinds.length < 2) return;
  for (const r of kinds) {
    const item = element("li"), svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), line = document.createElementNS(svg.namespaceURI, "line");
    for (const [name, value] of Object.entries({ width: 30, height: 6, "aria-hidden": "true" })) svg.setAttribute(name, value);
    for (const [name, value] of Object.entries({ x1: 0, x2: 30, y1: 3, y2: 3, stroke: "currentColor", "stroke-width": 2, "stroke-dasharray": dashOf(r).join(" ") })) line.setAttribute(name, value);
    svg.append(line);
    item.append(svg, `${result.runs.length > 1 ? `${result.runs[r.run].name} ` : ""}${onDevices(r.devices)}`);
    document.getElementById(id).append(item);
  }
}

/// One line per strategy; drawn only if the single device ran and at least one other strategy ran.
function drawSpeedup() {
  const singleOf = (run, times) => result.rows.find((r) => r.run === run && r.times_are === times && r.samples_per_second && r.strategy === "single" && r.devices === 1);
  const speedup = (r) => r.samples_per_second / singleOf(r.run, r.times_are).samples_per_second;  // only times of one clock compare
  const comparable = (r) => r.samples_per_second && singleOf(r.run, r.times_are), isSingle = (r) => r === singleOf(r.run, r.times_are);
  document.getElementById("speedup").hidden = !result.rows.some((r) => comparable(r) && !isSingle(r));
  if (document.getElementById("speedup").hidden) return;
  const rows = shownRows().filter((r) => comparable(r) && !isSingle(r)), most = Math.max(2, ...rows.map((r) => r.devices));
  document.getElementById("shared-cores").hidden = !rows.some((r) => r.oversubscribed);
  setTable("speedup-chart", "Speedup over one device", ["row", "speedup", "efficiency (%)"], rows.map((r) => [r.label, formatNumber(speedup(r)), formatNumber(100 * speedup(r) / r.devices)]));
  if (!prepare("speedup-chart", rows.length)) return;
  const lines = linesOverDevices(rows, speedup, { x: 1, y: 1 });
  lines.push({ label: "ideal", data: [{ x: 1, y: 1 }, { x: most, y: most }], borderColor: cssColour("--line"), borderWidth: 1.5, pointRadius: 0 });
  const config = { type: "line", data: { datasets: lines }, options: lineOptions("devices", "speedup", {}, lines.length) };
  const counts = [...new Set([1, ...rows.map((r) => r.devices)])].sort((a, b) => a - b);
  Object.assign(config.options.scales.x, devicesAxis(counts));
  if (most > 8) Object.assign(config.options.scales.y, devicesAxis(powersOfTwo(Math.min(1, ...rows.map(speedup)), most)));
  addChart(document.getElementById("speedup-chart"), `Speedup over one device: ${rows.map((r) => `${r.label} ${formatNumber(speedup(r))}`).join(", ")}`, config);
}

/// The powers of two from the last before `least` to the first after `most`.
function powersOfTwo(least, most) {
  const first = Math.floor(Math.log2(least)), last = Math.ceil(Math.log2(most));
  return Array.from({ length: last - first + 1 }, (_, i) => 2 ** (first + i));
}

/// One line per strategy (and run) over the numbers of devices. `first`: a point before those of the rows, or null.
function linesOverDevices(rows, value, first) {
  const keys = [...new Map(rows.map((r) => [`${r.run} ${r.variant}`, r])).values()];
  return keys.map((of, i) => {
    const line = rows.filter((r) => r.variant === of.variant && r.run === of.run).sort((a, b) => a.devices - b.devices), colour = colourOf(of);
    const points = [...(first && !line.some((r) => r.devices === 1) ? [first] : []), ...line.map((r) => ({ x: r.devices, y: value(r), shared: r.oversubscribed }))].filter((p) => p.y !== null);
    return { label: result.runs.length > 1 ? `${result.runs[of.run].name} ${of.variant}` : of.variant, data: points, order: keys.length - i, borderColor: colour, backgroundColor: colour,
             borderDash: of.run ? DASHES[1] : [], borderWidth: 2, pointRadius: 4, pointHitRadius: 8, pointBackgroundColor: points.map((p) => p.shared ? cssColour("--paper") : colour) };
  });
}

/// Means over the last points, exponentially weighted as in TensorBoard: without a bias at the beginning. `weight` 0: as measured.
function smoothed(points, weight) {
  let sum = 0, norm = 0;
  return points.map(({ x, y }) => {
    if (Number.isNaN(y)) return { x, y };
    sum = weight * sum + (1 - weight) * y;
    norm = weight * norm + 1 - weight;
    return { x, y: sum / norm };
  });
}

function smoothing() { return Number(document.getElementById("smoothing").value) / 100; }

function lossPoints(row, column) { return row.curve.filter((p) => p[column] !== null).map((p) => ({ x: p[column], y: p[2] === null ? NaN : p[2] })); }

/// The values of the lines at a few places, for a table. The last of a line at or before a place counts.
function curveTable(id, caption, xTitle, sets) {
  const last = Math.max(0, ...sets.flatMap((s) => s.data.map((p) => p.x))), places = Array.from({ length: TABLE_POINTS }, (_, i) => last * (i + 1) / TABLE_POINTS);
  const at = (data, x) => { const before = data.filter((p) => p.x <= x * (1 + 1e-9)); return before.length && data[data.length - 1].x >= x - last / TABLE_POINTS ? before[before.length - 1].y : null; };
  setTable(id, caption, [`row, at ${xTitle}`, ...places.map(formatNumber)], sets.map((s) => [s.label, ...places.map((x) => formatNumber(at(s.data, x)))]));
}

/// A chart of lines in the box `id`, with buttons to zoom. After a zoom an axis of values without fixed limits spans those in view.
function addCurves(id, label, config) {
  const holder = document.getElementById(id), buttons = element("div", "zoom"), box = element("div", "canvas fill");
  const end = BEHIND_LAST * Math.max(0, ...config.data.datasets.flatMap((set) => set.data.map((p) => p.x)));
  Object.assign(config.options.scales.x, { min: 0, max: end });
  box.tabIndex = 0;
  holder.append(box, buttons);
  makeZoomable(addChart(box, label, config), box, buttons, end, "Show all");
}

function drawLoss(id, xTitle, column) {
  const rows = shownRows().filter((r) => r.curve.length), coincide = column === 0 && !rows.some((r) => r.replicas || r.run), weight = smoothing();
  const logarithmic = document.getElementById("logarithmic").checked, raw = lineSets(rows, (row) => lossPoints(row, column), coincide);
  const sets = raw.map((set) => ({ ...set, data: smoothed(set.data, weight) }));
  lineKey("loss-key", rows);
  curveTable(id, `Training loss against ${xTitle}`, xTitle, sets);
  if (!prepare(id, rows.length)) return;
  const faint = weight > 0 && rows.length <= MOST_FAINT ? raw.map((set) => ({ ...set, faint: true, borderWidth: 1, borderDash: [], borderColor: `${set.borderColor}40`, order: 1000 })) : [];
  addCurves(id, `Training loss against ${xTitle} for ${rows.map((r) => r.label).join(", ")}. Numbers are in the table below.`, {
    type: "line", data: { datasets: [...sets, ...faint] },
    options: lineOptions(xTitle, "training loss", logarithmic ? { type: "logarithmic", beginAtZero: false } : {}, null),
  });
}

/// A number of each step as it was, in the box `${name}-chart`. Hidden where no row has it.
function drawOfSteps(name, title, column, limits) {
  const id = `${name}-chart`, has = (row) => row.curve.some((p) => p[column]);
  document.getElementById(name).hidden = !result.rows.some(has);
  if (document.getElementById(name).hidden) return;
  const rows = shownRows().filter(has), points = (row) => row.curve.map((p) => ({ x: p[0], y: p[column] ?? NaN }));
  const sets = lineSets(rows, points, !rows.some((r) => r.replicas || r.run));
  curveTable(id, `${title} against steps`, "steps", sets);
  if (!prepare(id, rows.length)) return;
  addCurves(id, `${title} against steps for ${rows.map((r) => r.label).join(", ")}. Numbers are in the table below.`, {
    type: "line", data: { datasets: sets }, options: lineOptions("steps", title.toLowerCase(), limits, null),
  });
}

function drawLosses() {
  drawLoss("loss-steps", "steps", 0);
  drawLoss("loss-seconds", timeTitle(result.rows, "s"), 1);
  drawOfSteps("rate", "Learning rate", 3, { beginAtZero: true });
  const isLogarithmic = document.getElementById("logarithmic").checked;
  drawOfSteps("norm", "Norm of the gradient", 4, isLogarithmic ? { type: "logarithmic", beginAtZero: false } : {});
}

/// Draws the charts of the loss again; the others, with the views of timelines, stay as they are.
function redrawLosses() {
  for (const chart of charts.filter((c) => c.canvas.closest("#loss"))) charts.splice(charts.indexOf(chart), 1)[0].destroy();
  drawLosses();
}

/// The quantities that the chart of the test set can show: the task's metrics, the main one first, and the loss.
const testNumbers = [...result.metrics, { name: "loss", title: "loss", is_share: false }];
function testNumber(evaluation, kind) {
  if (kind.name === "loss") return evaluation.loss;
  const metric = evaluation.metrics.find((m) => m.name === kind.name);
  return metric ? metric.value : null;
}

/// Limits of an axis for values of a metric. A small difference between rows looks small.
function metricLimits(values, kind) {
  if (!values.length) return { beginAtZero: false };
  return kind.is_share ? roomy(values, LEAST_SPAN.share, 100) : roomy(values, LEAST_SPAN.other * Math.max(...values.map(Math.abs)), Infinity);
}

function fillCurveChoices() {
  const choice = document.getElementById("metric"), slider = document.getElementById("smoothing");
  for (const kind of testNumbers) choice.append(Object.assign(element("option"), { value: kind.name, textContent: kind.title }));
  document.querySelector("#against option[value=seconds]").textContent = timeTitle(result.rows, "s");
  slider.value = result.rows.some((r) => r.curve.length >= LEAST_POINTS) ? 100 * USUAL_SMOOTHING : 0;
  const say = () => { document.getElementById("smoothing-value").textContent = smoothing() ? formatNumber(smoothing()) : "off"; };
  let waits = false;  // for the next frame: a slider that moves gives many events in one
  slider.addEventListener("input", () => {
    say();
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => { waits = false; redrawLosses(); });
  });
  say();
  document.getElementById("logarithmic").addEventListener("change", redrawLosses);
  for (const id of ["metric", "against"]) document.getElementById(id).addEventListener("change", drawAll);
}

function drawMetric() {
  const chosen = document.getElementById("metric").value, kind = testNumbers.find((k) => k.name === chosen) || testNumbers[0];
  const rows = shownRows().filter((r) => r.evaluations.length), scale = kind.is_share ? 100 : 1, title = `test ${kind.title}`;
  const against = document.getElementById("against"), xTitle = against.selectedOptions[0].textContent;
  const points = (row) => row.evaluations.map((e) => ({ x: e[against.value], y: testNumber(e, kind) })).filter((p) => p.x !== null && p.y !== null)
    .map((p) => ({ x: p.x, y: scale * p.y }));
  document.getElementById("h-metric").textContent = `Test ${kind.title}`;
  for (const id of ["metric-choice", "against-choice"]) document.getElementById(id).hidden = !rows.length;
  const sets = lineSets(rows, points, false).map((set) => ({ ...set, pointRadius: 3 }));
  lineKey("metric-key", rows);
  curveTable("metric-chart", `Test ${kind.title} against ${xTitle}`, xTitle, sets);
  if (!prepare("metric-chart", rows.length)) return;
  addCurves("metric-chart", `Test ${kind.title} against ${xTitle} for ${rows.map((r) => r.label).join(", ")}. Numbers are in the table below.`, {
    type: "line", data: { datasets: sets },
    options: lineOptions(xTitle, kind.is_share ? `${title} (%)` : title, metricLimits(sets.flatMap((s) => s.data.map((p) => p.y)), kind), null),
  });
}
