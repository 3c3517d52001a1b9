// Bars with one line per row: time per step, where a step's time goes, memory.
"use strict";

// Kinds of a step's time. Greys are computing, crimson is communication, as in the timelines.
const SPLIT_KINDS = [["computing", "#5f6f80"], ["computing, communication hidden", "#a8778c"], ["loading", "#c4a35a"], ["communication exposed", "#a3174f"], ["idle", "--line"]];
const MEMORY_KINDS = { weights: "#5a4632", gradients: "#8a6d4b", optimizer: "#b08f68", activations: "#cfb48f", buffers: "#97a0a8" };
const MANY_ALIKE = 4;

function kindColour(colour) { return colour.startsWith("--") ? cssColour(colour) : colour; }

function drawTimes() {
  const rows = shownRows().filter((r) => r.step_seconds && r.step_seconds.median !== null), shown = result.simulated ? "simulated" : "median";
  const predicted = !result.simulated && rows.some((r) => r.predicted);
  document.getElementById("predicted-note").hidden = !predicted;
  const groups = groupsOf(rows);
  document.getElementById("time-scales").hidden = groups.length < 2;
  setTable("time", "Time per step", ["row", shown, ...(result.simulated ? [] : ["10th percentile", "90th percentile"]), ...(predicted ? ["predicted"] : [])],
           rows.map((r) => [r.label, ...[r.step_seconds.median, ...(result.simulated ? [] : [r.step_seconds.p10, r.step_seconds.p90]),
                                         ...(predicted ? [r.predicted && r.predicted.step_seconds] : [])].map(formatTime)]));
  if (prepare("time", rows.length)) drawGroups("time", groups, `Time per step, ${shown}`, (group) => timeConfig(group, predicted, shown));
}

function formatTime(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const unit = timeUnit(seconds);
  return `${formatNumber(seconds / unit.size)} ${unit.name}`;
}

function timeConfig({ rows, name }, predicted, shown) {
  const unit = timeUnit(Math.max(...rows.map((r) => r.step_seconds.p90 ?? r.step_seconds.median))), scaled = (v) => v / unit.size;
  return {
    type: "bar",
    data: { labels: rows.map(name), datasets: [
      ...(predicted ? [{ type: "line", showLine: false, label: "predicted", pointStyle: "rectRot", pointRadius: 5, pointHitRadius: 8, borderColor: cssColour("--ink"),
        backgroundColor: cssColour("--paper"), data: rows.map((r) => r.predicted ? scaled(r.predicted.step_seconds) : NaN) }] : []),
      ...(result.simulated ? [] : [{ label: "10th to 90th percentile", data: rows.map((r) => [scaled(r.step_seconds.p10), scaled(r.step_seconds.p90)]),
        backgroundColor: cssColour("--ink"), grouped: false, barPercentage: 0.12, minBarLength: 2 }]),
      { label: shown, data: rows.map((r) => scaled(r.step_seconds.median)), backgroundColor: rows.map(colourOf), grouped: false, barPercentage: 0.7 },
    ] },
    options: barOptions(`time per step (${unit.name})`, false, (item) => {
      const v = item.raw;
      if (item.dataset.label === "predicted") return `predicted: ${formatNumber(v)} ${unit.name}`;
      return Array.isArray(v) ? `10th to 90th percentile: ${formatNumber(v[0])} to ${formatNumber(v[1])} ${unit.name}` : `${shown}: ${formatNumber(v)} ${unit.name}`;
    }, rows),
    plugins: [swatches],
  };
}

/// Percent of the step for each of SPLIT_KINDS, mean over devices.
function splitOf(r) {
  const known = r.busy_share.filter((v) => v !== null), busy = known.reduce((a, b) => a + b, 0) / known.length;
  const hidden = Math.min(r.communication.hidden_share ?? 0, busy), exposed = r.communication.exposed_share ?? 0, loading = r.loading_share ?? 0;
  return [busy - hidden, hidden, loading, exposed, Math.max(0, 1 - busy - loading - exposed)].map((v) => 100 * v);
}

function drawSplit() {
  const rows = shownRows().filter((r) => r.busy_share.some((v) => v !== null)), used = SPLIT_KINDS.map((_, k) => rows.some((r) => splitOf(r)[k] > 0));
  setTable("split", "Where a step's time goes", ["row", ...SPLIT_KINDS.map(([text]) => `${text} (%)`)], rows.map((r) => [r.label, ...splitOf(r).map(formatNumber)]));
  fillLegend("split-legend", "", SPLIT_KINDS.filter((_, k) => used[k]).map(([text, colour]) => [kindColour(colour), text]));
  if (!prepare("split", rows.length)) return;
  drawGroups("split", groupsOf(rows), "Shares of the time of a step", (group) => {
    const options = barOptions("share of step time (%)", true, (item) => `${item.dataset.label}: ${formatNumber(item.raw)} %`, group.rows);
    options.scales.x.max = 100;
    const sets = SPLIT_KINDS.map(([label, colour], k) => ({ label, backgroundColor: kindColour(colour), data: group.rows.map((r) => splitOf(r)[k]), barPercentage: 0.7 }));
    return { type: "bar", data: { labels: group.rows.map(group.name), datasets: sets }, options, plugins: [swatches] };
  });
}

/// One bar per device; one bar for MANY_ALIKE or more consecutive devices with the same memory, as in the table. With `greatest` only
/// the device that needs most.
function memoryBars(row, name, greatest) {
  const uses = row.memory_bytes;
  if (!uses.length) return [];
  if (greatest || uses.length === 1) return [{ name, row, use: uses.reduce((a, b) => b.peak > a.peak ? b : a) }];
  const alike = (a, b) => [...Object.keys(MEMORY_KINDS), "peak"].every((kind) => a[kind] === b[kind]), bars = [];
  for (let i = 0, end = 0; i < uses.length; i = end) {
    for (end = i + 1; end < uses.length && alike(uses[end], uses[i]);) ++end;
    if (end - i < MANY_ALIKE) end = i + 1;
    bars.push({ name: `${name}: ${end === i + 1 ? i : `${i} to ${end - 1}`}`, row, use: uses[i] });
  }
  return bars;
}

function drawMemory() {
  const rows = shownRows().filter((r) => r.memory_bytes.length), groups = groupsOf(rows);
  const greatest = groups.length > 1 || rows.flatMap((r) => memoryBars(r, "", false)).length > MOST_BARS;
  document.getElementById("memory-devices").textContent = [
    ...(greatest ? ["Each bar is the device of the row that needs most; the table has all devices."] : []),
    ...(groups.length > 1 ? ["Each chart has its own scale."] : [])].join(" ");
  fillLegend("memory-legend", "", Object.entries(MEMORY_KINDS).map(([text, colour]) => [colour, text]));
  if (!prepare("memory", rows.length)) return;
  const barsOf = ({ rows, name }) => rows.flatMap((r) => memoryBars(r, name(r), greatest));
  for (const group of groups) group.bars = barsOf(group);
  drawGroups("memory", groups.map((g) => ({ ...g, rows: g.bars.map((b) => b.row) })), "Peak memory per device", (group) => {
    const bars = groups.find((g) => g.title === group.title).bars, unit = byteUnit(Math.max(...bars.map((b) => b.use.peak)));
    const sets = Object.entries(MEMORY_KINDS).map(([label, backgroundColor]) => ({ label, data: bars.map((b) => b.use[label] / unit.size), backgroundColor, barPercentage: 0.8 }));
    return { type: "bar", data: { labels: bars.map((b) => b.name), datasets: sets },
             options: barOptions(`memory (${unit.name})`, true, (item) => `${item.dataset.label}: ${formatNumber(item.raw)} ${unit.name}`, group.rows), plugins: [swatches] };
  });
}
