// What all charts share: numbers and units, the chart in its box with its table, small multiples, axes.
"use strict";

const MOST_BARS = 14;  // in one chart; more rows are drawn as small charts, one for each number of devices
const BAR_HEIGHT = 24, BAR_AXES = 62;

const result = JSON.parse(document.getElementById("data").textContent);
result.rows.forEach((row, index) => { row.index = index; });
const charts = [];

function element(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}
function formatNumber(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  return value.toLocaleString("en", size >= 1e4 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: size >= 1000 ? 5 : 3 });
}
function largestUnit(units, largest) {
  const [name, size] = units.filter(([, s]) => largest >= s).pop() || units[0];
  return { name, size };
}
function byteUnit(largest) { return largestUnit([["B", 1], ["KiB", 2 ** 10], ["MiB", 2 ** 20], ["GiB", 2 ** 30], ["TiB", 2 ** 40]], largest); }
function timeUnit(largest) { return largestUnit([["µs", 1e-6], ["ms", 1e-3], ["s", 1]], largest); }
function formatBytes(bytes) {
  const unit = byteUnit(bytes);
  return `${formatNumber(bytes / unit.size)} ${unit.name}`;
}
function shortName(row) { return row.short_label; }
function onDevices(count) { return count === 1 ? "on 1 device" : `on ${count} devices`; }

/// Draws a chart at the end of `box`. Its label says what it shows; the numbers are in the table below the box.
function addChart(box, label, config, height) {
  if (height) box.style.height = `${height}px`;
  const canvas = element("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  box.append(canvas);
  const chart = new Chart(canvas, config);
  charts.push(chart);
  return chart;
}

/// Empties the box `id`. Without anything to draw it gets a sentence, and `false` is returned.
function prepare(id, any) {
  const box = document.getElementById(id);
  box.replaceChildren();
  box.style.height = "";
  const nothing = shownRows().length < result.rows.length ? "No row with these numbers is shown." : result.simulated ? "Not simulated." : "Not measured.";
  box.classList.toggle("empty", !any);
  if (!any) box.append(element("p", "none", nothing));
  return any;
}

/// A table with the numbers of the chart in the box `id`, folded below it. `head`: titles; `rows`: lists of text, the first names the line.
function setTable(id, caption, head, rows) {
  const box = document.getElementById(id);
  let details = document.querySelector(`details[data-of="${id}"]`);
  if (!details) {
    details = element("details", "alternative");
    details.dataset.of = id;
    details.append(element("summary", "", "As a table"), element("div", "scroll"));
    details.lastChild.tabIndex = 0;
    details.lastChild.setAttribute("role", "region");
    box.after(details);
  }
  details.hidden = !rows.length;
  details.lastChild.setAttribute("aria-label", caption);
  const fill = () => details.lastChild.replaceChildren(tableOf(caption, head, rows));
  details.ontoggle = fill;  // built when it is opened: long curves have long tables
  if (details.open) fill();
}

function tableOf(caption, head, rows) {
  const table = element("table"), top = element("thead"), body = element("tbody"), titles = element("tr");
  for (const [i, text] of head.entries()) titles.append(Object.assign(element("th", i ? "n" : "", text), { scope: "col" }));
  top.append(titles);
  for (const row of rows) {
    const line = element("tr");
    for (const [i, text] of row.entries()) line.append(i ? element("td", "n", text) : Object.assign(element("th", "", text), { scope: "row" }));
    body.append(line);
  }
  table.append(element("caption", "", caption), top, body);
  return table;
}

/// The rows as small multiples: one group for each number of devices, or a single group without a title if the rows are few.
function groupsOf(rows) {
  const counts = deviceCounts.filter((n) => rows.some((r) => r.devices === n));
  if (rows.length <= MOST_BARS || counts.length < 2) return [{ title: "", rows, name: shortName }];
  const name = (row) => result.runs.length > 1 ? `${result.runs[row.run].name} ${row.variant}` : row.variant;
  return counts.map((n) => ({ title: onDevices(n), rows: rows.filter((r) => r.devices === n), name }));
}

/// One chart with bars for each group. `config(group)` gives it; `label(group)` says what it shows.
function drawGroups(id, groups, label, config) {
  const box = document.getElementById(id);
  box.className = groups.length > 1 ? "multiples" : "";
  for (const group of groups) {
    const cell = element("div"), chart = element("div", "chart");
    if (group.title) cell.append(element("h4", "", group.title));
    cell.append(chart);
    box.append(cell);
    addChart(chart, `${label} ${group.title}: ${group.rows.map((r) => r.label).join(", ")}. The numbers are in the table below.`, config(group),
             BAR_AXES + BAR_HEIGHT * group.rows.length);
  }
}

function axis(text, more) { return { title: { display: true, text }, beginAtZero: true, ...more }; }

function barOptions(xTitle, stacked, tooltip, rows) {
  return {
    indexAxis: "y", animation: false, responsive: true, maintainAspectRatio: false, swatches: rows.map(colourOf),
    scales: { x: axis(xTitle, { stacked, ticks: { maxRotation: 0 } }), y: { stacked, grid: { display: false }, ticks: { autoSkip: false, padding: SWATCH_PADDING } } },
    plugins: { legend: { display: false }, tooltip: { callbacks: { label: tooltip } } },
  };
}

/// `lines`: their number, for a legend in the chart; null: a key beside the chart says what they are.
function lineOptions(xTitle, yTitle, yMore, lines) {
  return {
    animation: false, responsive: true, maintainAspectRatio: false, parsing: false, normalized: true, interaction: { mode: "nearest", axis: "x", intersect: false },
    scales: { x: { type: "linear", ...axis(xTitle) }, y: { ...axis(yTitle), ...yMore } },
    plugins: { legend: { display: lines !== null && lines <= MOST_BARS, position: "bottom", labels: { boxWidth: 26, boxHeight: 0, sort: (a, b) => a.datasetIndex - b.datasetIndex } },
               decimation: { enabled: true, algorithm: "min-max" },
               tooltip: { filter: (item) => !item.dataset.faint,
                          callbacks: { title: (items) => items.length ? `${xTitle}: ${formatNumber(items[0].parsed.x)}` : "",
                                       label: (item) => `${item.dataset.label}: ${formatNumber(item.parsed.y)}` } } },
  };
}

/// A logarithmic axis with a tick at each number of devices.
function devicesAxis(counts) {
  return { type: "logarithmic", beginAtZero: false, min: counts[0], max: counts[counts.length - 1],
           afterBuildTicks: (scale) => { scale.ticks = counts.map((value) => ({ value })); }, ticks: { callback: (v) => `${v}`, autoSkip: false } };
}

/// Limits of an axis that spans at least `least`, so that noise looks small, and not more than `most`.
function roomy(values, least, most) {
  const low = Math.min(...values), high = Math.max(...values), span = Math.max(1.08 * (high - low), least), tick = 10 ** Math.floor(Math.log10(span)) / 2;
  const middle = (low + high) / 2, max = Math.min(most, Math.ceil((middle + span / 2) / tick) * tick);
  const min = Math.floor(Math.min(middle - span / 2, max - least) / tick) * tick;
  return { beginAtZero: false, min: min < 0 && low >= 0 ? 0 : min, max };
}
