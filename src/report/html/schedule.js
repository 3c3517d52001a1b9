// The schedule of a plan with nominal times: the timeline as it would be if all stages were equal and communication took no time.
// Floating bars like those of the timeline of one step below it, with the micro-batch's number in each.
"use strict";

// The same colours as in the timeline for the same kinds.
const BOX_KINDS = {
  forward: { name: "forward", colour: "#5f6f80", ink: "#ffffff" },
  recompute: { name: "forward again (recompute)", colour: "#3f4c58", ink: "#ffffff" },
  backward: { name: "backward", colour: "#a3b0bc", ink: "#1b2229" },
  backward_input: { name: "backward of inputs", colour: "#a3b0bc", ink: "#1b2229" },
  backward_weight: { name: "weight gradient", colour: "#d0c3a8", ink: "#1b2229" },
};
const BOX_FONTS = [[12, 4], [10, 2], [9, 1]];  // the largest that fits is used: pixels, and free pixels beside the number
const SCHEDULE_ROW = 34;  // labels have two lines

function hasSchedule(row) { return row.schedule && row.schedule.rows.some((r) => r.boxes.length > 0); }

/// "3"; "2.3" is micro-batch 3 of batch 2 if batches overlap; a letter in front distinguishes the stages of a worker that has several.
function boxText(schedule, row, [, , , stage, micro, batch]) {
  const number = schedule.flushes ? `${micro}` : schedule.micro_batches === 1 ? `${batch}` : `${batch}.${micro}`;
  return row.stages.length > 1 ? String.fromCharCode(65 + row.stages.indexOf(stage) % 26) + number : number;
}

function scheduleSets(schedule) {
  const sets = new Map();
  schedule.rows.forEach((row) => {
    for (const box of row.boxes) {
      const [begin, end, kind, stage, micro, batch] = box;
      if (!sets.has(kind)) sets.set(kind, []);
      sets.get(kind).push({ x: [begin, Math.min(end, schedule.shown_until)], y: row.label, text: boxText(schedule, row, box),
                            begin, end, stage, micro, batch });
    }
  });
  const look = { grouped: false, barPercentage: 0.92, categoryPercentage: 0.92, borderSkipped: false };
  const bars = [...sets].map(([kind, data]) => ({
    ...look, kind, ink: BOX_KINDS[kind].ink, label: BOX_KINDS[kind].name, data, backgroundColor: BOX_KINDS[kind].colour,
    borderWidth: { left: 0.5, right: 0.5 }, borderColor: cssColour("--paper"), minBarLength: 1,
  }));
  const idle = schedule.rows.map((row) => ({ x: [0, schedule.shown_until], y: row.label }));
  return [...bars, { ...look, label: "idle", data: idle, backgroundColor: cssColour("--line"), order: 1 }];  // drawn first
}

/// Writes `text` into the visible part of a box, if there is room for `longest`.
function writeNumber(ctx, text, longest, from, to, y) {
  for (const [size, free] of BOX_FONTS) {
    ctx.font = `${size}px ${Chart.defaults.font.family}`;
    if (to - from >= ctx.measureText(longest).width + free) return ctx.fillText(text, (from + to) / 2, y);
  }
}

/// Numbers in a size that fits all boxes of a kind, or each box on its own if the set's textsDiffer is true.
const boxNumbers = {
  id: "boxNumbers",
  afterDatasetsDraw(chart) {
    const { ctx, chartArea } = chart;
    ctx.save();
    ctx.beginPath();
    ctx.rect(chartArea.left, chartArea.top, chartArea.width, chartArea.height);
    ctx.clip();
    Object.assign(ctx, { textAlign: "center", textBaseline: "middle" });
    chart.data.datasets.forEach((set, i) => {
      if (!set.ink) return;
      const longest = "0".repeat(Math.max(...set.data.map((box) => box.text.length)));
      ctx.fillStyle = set.ink;
      chart.getDatasetMeta(i).data.forEach((bar, k) => {
        const from = Math.max(Math.min(bar.x, bar.base), chartArea.left), to = Math.min(Math.max(bar.x, bar.base), chartArea.right);
        writeNumber(ctx, set.data[k].text, set.textsDiffer ? set.data[k].text : longest, from, to, bar.y);
      });
    });
    ctx.restore();
  },
};

function boxTooltip({ raw, dataset }, schedule) {
  const lines = [`${dataset.label} of micro-batch ${raw.micro}`, `stage ${raw.stage}, from ${formatNumber(raw.begin)} to ${formatNumber(raw.end)}`];
  if (!schedule.flushes) lines.push(`batch ${raw.batch}`);
  return lines;
}

/// Title of the drawing, with the share of idle time.
function scheduleTitle(schedule) {
  const clock = "Schedule (nominal: forward 1, backward 2)";
  return schedule.bubble === null || schedule.bubble === undefined
    ? `${clock}: no flush, idle only at the start and at the end`
    : `${clock}: bubble ${(100 * schedule.bubble).toFixed(1)}\u00a0%`;
}

function scheduleNotes(schedule) {
  const notes = [];
  if (schedule.rows.some((r) => r.stages.length > 1)) notes.push("Letters: A, B, … are the first, second, … stage of a worker.");
  if (!schedule.flushes) {
    const numbers = schedule.micro_batches > 1 ? "2.3 is micro-batch 3 of batch 2" : "numbers are batches";
    notes.push(`Batches overlap: ${numbers}; ${schedule.batches} batches and their draining are shown; a longer run drains only at its end.`);
  }
  if (schedule.shown_until < schedule.makespan)
    notes.push(`Too many boxes for one drawing: the first ${formatNumber(schedule.shown_until)} of ${formatNumber(schedule.makespan)} units are shown.`);
  return notes;
}

function drawSchedule(row, holder) {
  const schedule = row.schedule, end = Math.max(schedule.shown_until, 1e-9), labels = schedule.rows.map((r) => r.label);
  const strip = element("div", "strip"), buttons = element("div"), box = element("div", "canvas"), title = scheduleTitle(schedule);
  strip.append(element("h4", "", title), buttons);
  box.tabIndex = 0;
  box.id = `schedule-of-${row.index}`;
  holder.append(strip, box);
  for (const text of scheduleNotes(schedule)) holder.append(element("p", "note", text));
  const chart = addChart(box, `Nominal schedule of ${row.label}: ${labels.join("; ")}; ${formatNumber(schedule.makespan)} units. ${title}`, {
    type: "bar",
    data: { labels, datasets: scheduleSets(schedule) },
    options: {
      indexAxis: "y", animation: false, responsive: true, maintainAspectRatio: false,
      scales: { x: { min: 0, max: end, ticks: { callback: (v) => formatNumber(v), maxRotation: 0 },
                     title: { display: true, text: "time (1: a forward of one worker)" } },
                y: { grid: { display: false }, ticks: { autoSkip: false, callback: (index) => labels[index].split(", ") } } },
      plugins: { legend: { display: false },
                 tooltip: { filter: (item) => item.dataset.kind !== undefined,
                            callbacks: { title: (items) => items.length ? items[0].raw.y : "",
                                         label: (item) => boxTooltip(item, schedule) } } },
    },
    plugins: [boxNumbers],
  }, AXIS_HEIGHT + SCHEDULE_ROW * labels.length);
  makeZoomable(chart, box, buttons, end, "Show the whole step");
  const used = Object.keys(BOX_KINDS).filter((kind) => schedule.rows.some((r) => r.boxes.some((b) => b[2] === kind)));
  setTable(box.id, `Nominal schedule of ${row.label}`, ["workers", ...used.map((kind) => `${BOX_KINDS[kind].name} (units)`), "idle (%)"], schedule.rows.map((r) => [
    r.label, ...used.map((kind) => formatNumber(r.boxes.filter((b) => b[2] === kind).reduce((sum, b) => sum + b[1] - b[0], 0))),
    formatNumber(r.bubble === null || r.bubble === undefined ? null : 100 * r.bubble)]));
}

function drawScheduleLegend(rows) {
  document.getElementById("schedule-words").hidden = !rows.length;
  const used = new Set(rows.flatMap((row) => row.schedule.rows.flatMap((r) => r.boxes.map((b) => b[2]))));
  const names = new Map(Object.keys(BOX_KINDS).filter((k) => used.has(k)).map((k) => [BOX_KINDS[k].colour, BOX_KINDS[k].name]));
  if (used.has("backward") && used.has("backward_input")) names.set(BOX_KINDS.backward.colour, "backward (of inputs, where weight gradients come later)");
  const idle = rows.length ? [[cssColour("--line"), "idle"]] : [];
  fillLegend("schedule-legend", "Schedule:", [...names, ...idle]);
}
