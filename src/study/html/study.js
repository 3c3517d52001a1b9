// Draws the charts of a study from the JSON in #data. charts.js and palette.js of a run's report give their form and
// colours.
"use strict";

function axisTitle(axis) { return axis.unit ? `${axis.title} (${axis.unit})` : axis.title; }

function setStyle(set, isPoints) {
  const colour = colourOfName(set.variant);
  return { borderColor: colour, backgroundColor: set.published ? cssColour("--paper") : colour, borderWidth: 1.8,
           borderDash: set.published ? [2, 3] : dashOf(set), pointHitRadius: 8,
           pointStyle: set.published ? "rectRot" : "circle",
           pointRadius: set.published ? 7 : isPoints || set.points.length < 12 ? 4 : 0,
           order: set.published ? 0 : 1, clip: 8, showLine: !isPoints };
}

const FAR = 30;          // times the least value of an axis: then it is logarithmic
const MOST_POINTS = 20;  // in a legend

/// The numbers of a chart, one line per point.
function pointTable(chart) {
  const line = (point) => [point.of, formatNumber(point.x), formatNumber(point.y)];
  const rows = chart.sets.flatMap((set) => set.points.map(line));
  setTable(chart.box, `${chart.title}, ${chart.run}`, ["row", axisTitle(chart.x), axisTitle(chart.y)], rows);
}

function drawChart(chart) {
  const box = document.getElementById(chart.box), isPoints = chart.kind === "points";
  box.replaceChildren();
  document.getElementById(`${chart.box}-title`).textContent = chart.title;
  pointTable(chart);
  if (!chart.sets.length) {
    box.classList.add("empty");
    box.append(element("p", "none", "Not measured."));
    return;
  }
  const sets = chart.sets.map((set) => ({ label: set.name, data: set.points, ...setStyle(set, isPoints) }));
  const options = lineOptions(axisTitle(chart.x), axisTitle(chart.y), {}, sets.length);
  options.plugins.decimation.enabled = false;
  if (isPoints) options.interaction = { mode: "nearest", intersect: true };
  const points = chart.sets.flatMap((set) => set.points), values = points.map((point) => point.y);
  const label = ({ raw, parsed }) => `${raw.of}: ${formatNumber(parsed.x)}, ${formatNumber(parsed.y)}`;
  options.plugins.tooltip.callbacks = { title: () => "", label };
  const counts = [...new Set(points.map((point) => point.x))].sort((a, b) => a - b);
  if (chart.x.devices) Object.assign(options.scales.x, devicesAxis(counts));
  const least = counts[0], isFar = isPoints && least > 0 && counts[counts.length - 1] > FAR * least;
  if (isFar && !chart.x.devices) Object.assign(options.scales.x, { type: "logarithmic", beginAtZero: false });
  const legend = { display: sets.length <= MOST_POINTS, labels: { usePointStyle: true, boxHeight: 6 } };
  if (isPoints) Object.assign(options.plugins.legend, legend);
  if (Math.min(...values) < 0 || Math.min(...values) > 0.5 * Math.max(...values)) options.scales.y.beginAtZero = false;
  const names = chart.sets.map((set) => set.name).join(", ");
  addChart(box, `${chart.title}, ${chart.run}: ${names}. The numbers are in the table below.`,
           { type: "line", data: { datasets: sets }, options });
}

function drawAll() {
  for (const chart of charts.splice(0)) chart.destroy();
  Object.assign(Chart.defaults, { color: cssColour("--soft"), borderColor: cssColour("--line") });
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  result.charts.forEach(drawChart);
}

window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
drawAll();
