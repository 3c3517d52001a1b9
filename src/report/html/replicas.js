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

/// One line per strategy over the numbers of devices on which it ran.
function workerSets(rows, value) {
  return [...new Set(rows.map((r) => r.name))].map((name, i, names) => {
    const of = rows.filter((r) => r.name === name).sort((a, b) => a.devices - b.devices), colour = colourOfName(name);
    const points = of.map((r) => ({ x: r.devices, y: value(r), shared: r.oversubscribed })).filter((p) => p.y !== null);
    return { label: name, data: points, order: names.length - i, borderColor: colour, backgroundColor: colour, borderDash: DASHES[i % DASHES.length], borderWidth: 2, pointRadius: 4, pointHitRadius: 8,
             pointBackgroundColor: points.map((p) => p.shared ? cssColour("--paper") : colour) };
  });
}

function drawAgainstWorkers(id, rows, yTitle, value, yMore) {
  const counts = [...new Set(rows.map((r) => r.devices))].sort((a, b) => a - b), xTitle = "workers", sets = workerSets(rows, value);
  const config = { type: "line", data: { datasets: sets }, options: lineOptions(xTitle, yTitle, yMore) };
  Object.assign(config.options.scales.x, { type: "logarithmic", beginAtZero: false, min: counts[0], max: counts[counts.length - 1],
    afterBuildTicks: (scale) => { scale.ticks = counts.map((value) => ({ value })); }, ticks: { callback: (v) => `${v}`, autoSkip: false } });
  draw(id, true, `${yTitle} against workers: ${sets.map((s) => `${s.label} ${s.data.map((p) => `${p.x}: ${formatNumber(p.y)}`).join(", ")}`).join("; ")}`, config);
}

/// Drawn only if a strategy finished on several numbers of devices.
function drawWorkers() {
  const ended = result.rows.filter((r) => r.status === "ok" && trainingSeconds(r) > 0);
  const several = ended.some((r) => ended.some((other) => other.name === r.name && other.devices !== r.devices));
  document.getElementById("workers-section").hidden = !several;
  if (!several) return;
  const seconds = ended.map(trainingSeconds), most = Math.max(...seconds), unit = timeUnit(most);
  drawAgainstWorkers("workers-time", ended, timeTitle(ended, unit.name), (r) => trainingSeconds(r) / unit.size,
                     most > TIMES_LARGER * Math.min(...seconds) ? { type: "logarithmic", beginAtZero: false } : {});
  document.getElementById("workers-shared").hidden = !ended.some((r) => r.oversubscribed);
  const kind = testNumbers[0], scale = kind.is_share ? 100 : 1, tested = ended.filter((r) => r.evaluations.length);
  const last = (r) => testNumber(r.evaluations[r.evaluations.length - 1], kind);
  document.getElementById("h-workers-metric").textContent = `Test ${kind.title} at the end`;
  if (!tested.length) draw("workers-metric", false);
  else drawAgainstWorkers("workers-metric", tested, `test ${kind.title}${kind.is_share ? " (%)" : ""}`,
                          (r) => last(r) === null ? null : scale * last(r), { beginAtZero: false });
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
  const rows = result.rows.filter((r) => r.replicas !== null && r.replicas.staleness.some((n) => n > 0)), holder = document.getElementById("staleness");
  document.getElementById("staleness-section").hidden = !rows.length;
  holder.replaceChildren();
  rows.forEach((row, i) => {
    const cell = element("div"), box = element("div", "chart small"), bins = stalenessBins(row.replicas.staleness);
    box.id = `staleness-${i}`;
    cell.append(Object.assign(element("h3"), { textContent: row.label }), box);
    holder.append(cell);
    draw(box.id, true, `Staleness of ${row.label}: ${bins.filter((b) => b.share > 0).map((b) => `${b.label}: ${formatNumber(b.share)} %`).join(", ")}`, {
      type: "bar",
      data: { labels: bins.map((b) => b.label), datasets: [{ data: bins.map((b) => b.share), backgroundColor: colourOf(row), barPercentage: 1, categoryPercentage: 0.9 }] },
      options: {
        animation: false, responsive: true, maintainAspectRatio: false,
        scales: { x: { title: { display: true, text: "updates by other replicas since the weights were read" }, grid: { display: false } }, y: axis("exchanges (%)") },
        plugins: { legend: { display: false }, tooltip: { callbacks: { label: (item) => `${formatNumber(item.raw)} % of the exchanges` } } },
      },
    });
  });
}
