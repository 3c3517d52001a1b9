// Charts for rows under an update policy: the staleness of the weights; for any comparison on several numbers of devices: time and quality
// against the number of workers.
"use strict";

const MOST_BINS = 40, TIMES_LARGER = 5;

function isModelled(row) { return row.times_are === "modelled"; }
/// "training time (s), modelled clock"
function timeTitle(rows, unit) {
  const modelled = rows.filter(isModelled).length;
  return `training time (${unit})${modelled === 0 ? "" : modelled === rows.length ? ", modelled clock" : ", of some rows on the modelled clock"}`;
}
function trainingSeconds(row) {
  return Math.max(row.curve.length ? row.curve[row.curve.length - 1][1] : 0, row.evaluations.length ? row.evaluations[row.evaluations.length - 1].seconds : 0);
}

function drawAgainstWorkers(id, rows, yTitle, value, yMore) {
  const counts = [...new Set(rows.map((r) => r.devices))].sort((a, b) => a - b), xTitle = "workers", sets = linesOverDevices(rows, value, null);
  setTable(id, `${yTitle} against workers`, ["row", yTitle], rows.map((r) => [r.label, formatNumber(value(r))]));
  if (!prepare(id, rows.length)) return;
  const config = { type: "line", data: { datasets: sets }, options: lineOptions(xTitle, yTitle, yMore, sets.length) };
  Object.assign(config.options.scales.x, devicesAxis(counts));
  addChart(document.getElementById(id), `${yTitle} against workers: ${sets.map((s) => `${s.label} ${s.data.map((p) => `${p.x}: ${formatNumber(p.y)}`).join(", ")}`).join("; ")}`, config);
}

/// Drawn only if a strategy finished on several numbers of devices.
function drawWorkers() {
  const ended = (rows) => rows.filter((r) => r.status === "ok" && trainingSeconds(r) > 0), all = ended(result.rows);
  const several = all.some((r) => all.some((other) => other.variant === r.variant && other.run === r.run && other.devices !== r.devices));
  document.getElementById("workers").hidden = !several;
  if (!several) return;
  const rows = ended(shownRows()), seconds = rows.map(trainingSeconds), most = Math.max(0, ...seconds), unit = timeUnit(most);
  drawAgainstWorkers("workers-time", rows, timeTitle(rows, unit.name), (r) => trainingSeconds(r) / unit.size,
                     most > TIMES_LARGER * Math.min(...seconds) ? { type: "logarithmic", beginAtZero: false } : {});
  document.getElementById("workers-shared").hidden = !rows.some((r) => r.oversubscribed);
  const kind = testNumbers[0], scale = kind.is_share ? 100 : 1, tested = rows.filter((r) => r.evaluations.length);
  const last = (r) => testNumber(r.evaluations[r.evaluations.length - 1], kind), value = (r) => last(r) === null ? null : scale * last(r);
  document.getElementById("h-workers-metric").textContent = `Test ${kind.title} at the end`;
  drawAgainstWorkers("workers-metric", tested, `test ${kind.title}${kind.is_share ? " (%)" : ""}`, value, metricLimits(tested.map(value).filter((v) => v !== null), kind));
}

/// Shares of the exchanges in percent, in at most MOST_BINS bins of equal width.
function stalenessBins(histogram) {
  const width = Math.ceil(histogram.length / MOST_BINS), sum = histogram.reduce((a, b) => a + b, 0), bins = [];
  for (let first = 0; first < histogram.length; first += width) {
    const last = Math.min(first + width, histogram.length) - 1;
    bins.push({ label: first === last ? `${first}` : `${first} to ${last}`, share: 100 * histogram.slice(first, last + 1).reduce((a, b) => a + b, 0) / sum });
  }
  return bins;
}

/// A small histogram for each row whose exchanges met weights that other replicas had changed, or could have changed.
function drawStaleness() {
  const stale = (rows) => rows.filter((r) => r.replicas !== null && r.replicas.staleness.some((n) => n > 0)), rows = stale(shownRows());
  document.getElementById("staleness").hidden = !stale(result.rows).length;
  setTable("staleness-charts", "Staleness", ["row", "exchanges", "mean", "most"], rows.map((r) => {
    const n = r.replicas.staleness, sum = n.reduce((a, b) => a + b, 0);
    return [r.label, formatNumber(sum), formatNumber(n.reduce((a, b, k) => a + b * k, 0) / sum), `${n.length - 1}`];
  }));
  if (!prepare("staleness-charts", rows.length)) return;
  for (const row of rows) {
    const cell = element("div"), box = element("div", "chart small"), bins = stalenessBins(row.replicas.staleness);
    cell.append(element("h4", "", row.label), box);
    document.getElementById("staleness-charts").append(cell);
    addChart(box, `Staleness of ${row.label}: ${bins.filter((b) => b.share > 0).map((b) => `${b.label}: ${formatNumber(b.share)} %`).join(", ")}`, {
      type: "bar",
      data: { labels: bins.map((b) => b.label), datasets: [{ data: bins.map((b) => b.share), backgroundColor: colourOf(row), barPercentage: 1, categoryPercentage: 0.9 }] },
      options: {
        animation: false, responsive: true, maintainAspectRatio: false,
        scales: { x: { title: { display: true, text: "updates by other replicas since the weights were read" }, grid: { display: false } }, y: axis("exchanges (%)") },
        plugins: { legend: { display: false }, tooltip: { callbacks: { label: (item) => `${formatNumber(item.raw)} % of the exchanges` } } },
      },
    });
  }
}
