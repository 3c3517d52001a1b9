// One zoomable timeline per strategy: floating bars of Chart.js on a time axis that wheel, drag, pinch, keys and buttons move.
"use strict";

// Okabe and Ito's colours (distinct under the common colour blindnesses), by kind of event; similar kinds have a darker shade.
const KIND_COLOURS = {
  load: "#999999", forward: "#0072b2", recompute: "#00456e", backward: "#56b4e9", redistribute: "#cc79a7", gather: "#8c3a66",
  send: "#e69f00", receive: "#f0e442", reduce: "#d55e00", update: "#009e73", wait: "#c9cfd5", other: "#7a6a58",
};
const ROW_HEIGHT = 34, AXIS_HEIGHT = 60, ZOOM_STEP = 1.4, PAN_STEP = 0.15, SMALLEST_VIEW = 1e-4;

/// Bars by kind, because Chart.js draws a data set in one colour and names it in the legend.
function timelineSets(events, unit) {
  const sets = new Map();
  for (const [rank, lane, kind, name, micro, begin, end, bytes] of events) {
    if (begin === null || end === null) continue;
    if (!sets.has(kind)) sets.set(kind, []);
    sets.get(kind).push({ x: [begin * unit.perSecond, end * unit.perSecond], y: laneName(rank, lane), name: name || kind, micro, bytes });
  }
  return [...sets].map(([kind, data]) => ({
    label: kind, data, backgroundColor: KIND_COLOURS[kind], grouped: false, barPercentage: 0.92, categoryPercentage: 0.92,
    borderWidth: { left: 0.5, right: 0.5 }, borderColor: cssColour("--paper"), minBarLength: 1, borderSkipped: false,
  }));
}

function laneName(rank, lane) { return lane === 0 ? `worker ${rank}` : `worker ${rank} +`; }

function timelineLanes(events) {
  const lanes = [...new Map(events.map(([rank, lane]) => [`${rank}:${lane}`, [rank, lane]])).values()];
  lanes.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  return [...new Set(lanes.map(([rank, lane]) => laneName(rank, lane)))];
}

function timelineTooltip(item, unit) {
  const { x, name, micro, bytes } = item.raw;
  const lines = [name, `${item.dataset.label}, ${formatNumber(x[1] - x[0])} ${unit.name}, from ${formatNumber(x[0])} ${unit.name}`];
  if (micro >= 0) lines.push(`micro-batch ${micro}`);
  if (bytes > 0) lines.push(`sent ${formatBytes(bytes)}`);
  return lines;
}

function drawTimeline(row, holder) {
  const events = row.timeline.events;
  const end = Math.max(...events.map((e) => e[6] || 0), 1e-9);
  const unit = end < 1e-3 ? { name: "µs", perSecond: 1e6 } : end < 1 ? { name: "ms", perSecond: 1e3 } : { name: "s", perSecond: 1 };
  const lanes = timelineLanes(events);
  const strip = element("div", "strip"), title = element("h4"), buttons = element("div"), box = element("div", "canvas");
  title.textContent = `${row.times_are[0].toUpperCase()}${row.times_are.slice(1)}: step ${row.timeline.step}`;
  strip.append(title, buttons);
  box.style.height = `${AXIS_HEIGHT + ROW_HEIGHT * lanes.length}px`;
  box.tabIndex = 0;
  const canvas = element("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `Timeline of one step of ${row.label}: ${events.length} events on ${lanes.length} lanes in ${formatNumber(end * unit.perSecond)} ${unit.name}`);
  box.append(canvas);
  holder.append(strip, box);
  const chart = new Chart(canvas, {
    type: "bar",
    data: { labels: lanes, datasets: timelineSets(events, unit) },
    options: {
      indexAxis: "y", animation: false, responsive: true, maintainAspectRatio: false,
      scales: { x: { min: 0, max: end * unit.perSecond, ticks: { callback: (v) => formatNumber(v), maxRotation: 0 },
                     title: { display: true, text: `time since the step began (${unit.name})` } },
                y: { grid: { display: false } } },
      plugins: { legend: { display: false },
                 tooltip: { callbacks: { title: (items) => items[0].label, label: (item) => timelineTooltip(item, unit) } } },
    },
  });
  makeZoomable(chart, box, buttons, end * unit.perSecond);
  return chart;
}

/// Keeps the view inside [0, whole].
function setView(chart, low, high, whole) {
  const span = Math.min(Math.max(high - low, whole * SMALLEST_VIEW), whole);
  low = Math.min(Math.max(low, 0), whole - span);
  Object.assign(chart.options.scales.x, { min: low, max: low + span });
  chart.update("none");
}

function makeZoomable(chart, box, buttons, whole) {
  const scale = () => chart.scales.x;
  const zoom = (factor, at) => {
    const { min, max } = scale();
    const centre = at === undefined ? (min + max) / 2 : at;
    setView(chart, centre - (centre - min) * factor, centre + (max - centre) * factor, whole);
  };
  const pan = (by) => setView(chart, scale().min + by, scale().max + by, whole);
  const reset = () => setView(chart, 0, whole, whole);
  const valueAt = (clientX) => scale().getValueForPixel(clientX - chart.canvas.getBoundingClientRect().left);

  for (const [text, label, action] of [["−", "Zoom out", () => zoom(ZOOM_STEP)], ["+", "Zoom in", () => zoom(1 / ZOOM_STEP)], ["all", "Show the whole step", reset]]) {
    const button = element("button");
    button.type = "button";
    button.textContent = text;
    button.setAttribute("aria-label", label);
    button.addEventListener("click", action);
    buttons.append(button, " ");
  }
  box.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(event.deltaY > 0 ? ZOOM_STEP : 1 / ZOOM_STEP, valueAt(event.clientX));
  }, { passive: false });
  box.addEventListener("dblclick", reset);
  box.addEventListener("keydown", (event) => {
    const width = scale().max - scale().min;
    const keys = { "+": () => zoom(1 / ZOOM_STEP), "=": () => zoom(1 / ZOOM_STEP), "-": () => zoom(ZOOM_STEP), 0: reset,
                   ArrowLeft: () => pan(-width * PAN_STEP), ArrowRight: () => pan(width * PAN_STEP) };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  followPointers(box, scale, pan, zoom, valueAt);
}

/// One pointer drags, two pinch.
function followPointers(box, scale, pan, zoom, valueAt) {
  const pointers = new Map();
  const spread = () => {
    const [a, b] = [...pointers.values()];
    return { gap: Math.max(Math.abs(a - b), 1), middle: (a + b) / 2 };
  };
  box.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, event.clientX);
    box.setPointerCapture(event.pointerId);
  });
  box.addEventListener("pointermove", (event) => {
    if (!pointers.has(event.pointerId)) return;
    const before = pointers.size === 2 ? spread() : null, last = pointers.get(event.pointerId);
    pointers.set(event.pointerId, event.clientX);
    if (before) {
      const now = spread();
      zoom(before.gap / now.gap, valueAt(now.middle));
    } else if (pointers.size === 1) {
      pan((last - event.clientX) * (scale().max - scale().min) / Math.max(scale().width, 1));
    }
  });
  for (const type of ["pointerup", "pointercancel"]) box.addEventListener(type, (event) => pointers.delete(event.pointerId));
}

/// Fills the list `id` with [colour, text] pairs, after the text `lead` (may be empty).
function fillLegend(id, lead, pairs) {
  const list = document.getElementById(id);
  list.replaceChildren();
  if (lead && pairs.length) list.append(Object.assign(element("li"), { textContent: lead }));
  for (const [colour, text] of pairs) {
    const item = element("li"), swatch = element("i");
    swatch.style.background = colour;
    item.append(swatch, text);
    list.append(item);
  }
}

function hasTimeline(row) { return row.timeline && row.timeline.events.length > 0; }

function drawTimelineLegend(rows, besideSchedules) {
  const used = new Set(rows.flatMap((row) => row.timeline.events.map((e) => e[2])));
  const kinds = Object.keys(KIND_COLOURS).filter((kind) => used.has(kind));
  fillLegend("timeline-legend", besideSchedules ? "One step:" : "", kinds.map((kind) => [KIND_COLOURS[kind], kind]));
}
