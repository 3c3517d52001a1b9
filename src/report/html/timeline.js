// One zoomable timeline per strategy: floating bars of Chart.js on a time axis that wheel, drag, pinch, keys and buttons move.
"use strict";

// By kind of event, in colours that no strategy has: slate computes, crimson to pink communicates, brown reads and updates.
const KIND_COLOURS = {
  load: "#c4a35a", forward: "#5f6f80", recompute: "#3f4c58", backward: "#a3b0bc", redistribute: "#c94f8c", gather: "#7d2a5c",
  send: "#e08fb5", receive: "#efc3d8", reduce: "#a3174f", update: "#8a6d4b", wait: "#d9dee3", other: "#6b6157",
};
const ROW_HEIGHT = 34, MANY_LANES = 8, LOW_ROW_HEIGHT = 20, AXIS_HEIGHT = 60, ZOOM_STEP = 1.4, PAN_STEP = 0.15, SMALLEST_VIEW = 1e-4;

/// Bars by kind, because Chart.js draws a data set in one colour and names it in the legend.
function timelineSets({ events, lanes }, unit) {
  const sets = new Map();
  for (const [group, lane, kind, name, micro, begin, end, bytes] of events) {
    if (begin === null || end === null) continue;
    if (!sets.has(kind)) sets.set(kind, []);
    sets.get(kind).push({ x: [begin * unit.perSecond, end * unit.perSecond], y: laneName(lanes, group, lane), name: name || kind, micro, bytes });
  }
  return [...sets].map(([kind, data]) => ({
    label: kind, data, backgroundColor: KIND_COLOURS[kind], grouped: false, barPercentage: 0.92, categoryPercentage: 0.92,
    borderWidth: { left: 0.5, right: 0.5 }, borderColor: cssColour("--paper"), minBarLength: 1, borderSkipped: false,
  }));
}

/// Workers that do alike share a lane; what overlaps another event of a worker without lying inside it is on a lane of its own.
function laneName(lanes, group, lane) { return lane === 0 ? lanes[group] : `${lanes[group]} +`; }

function timelineLanes({ events, lanes }) {
  const found = [...new Map(events.map(([group, lane]) => [`${group}:${lane}`, [group, lane]])).values()];
  found.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  return [...new Set(found.map(([group, lane]) => laneName(lanes, group, lane)))];
}

/// Seconds of each kind of work on each lane, in percent of the step.
function timelineTable(row) {
  const { events, lanes } = row.timeline, end = endOfStep(row), kinds = Object.keys(KIND_COLOURS).filter((kind) => events.some((e) => e[2] === kind));
  return [["worker", ...kinds.map((kind) => `${kind} (%)`)], timelineLanes(row.timeline).map((name) => [name, ...kinds.map((kind) => {
    const of = events.filter(([group, lane, k]) => k === kind && laneName(lanes, group, lane) === name);
    return formatNumber(100 * of.reduce((sum, e) => sum + (e[6] - e[5]), 0) / end);
  })])];
}

function endOfStep(row) { return Math.max(...row.timeline.events.map((e) => e[6] || 0), 1e-9); }

function timelineTooltip(item, unit) {
  const { x, name, micro, bytes } = item.raw;
  const lines = [name, `${item.dataset.label}, ${formatNumber(x[1] - x[0])} ${unit.name}, from ${formatNumber(x[0])} ${unit.name}`];
  if (micro >= 0) lines.push(`micro-batch ${micro}`);
  if (bytes > 0) lines.push(`sent ${formatBytes(bytes)}`);
  return lines;
}

/// `end`: seconds at the right edge; timelines that are shown together have the same.
function drawTimeline(row, holder, end) {
  const events = row.timeline.events, lanes = timelineLanes(row.timeline), spoken = timeUnit(end), unit = { name: spoken.name, perSecond: 1 / spoken.size };
  const strip = element("div", "strip"), buttons = element("div"), box = element("div", "canvas"), rowHeight = lanes.length > MANY_LANES ? LOW_ROW_HEIGHT : ROW_HEIGHT;
  strip.append(element("h4", "", `${row.times_are[0].toUpperCase()}${row.times_are.slice(1)}: step ${row.timeline.step}, ${formatTime(endOfStep(row))}`), buttons);
  box.tabIndex = 0;
  box.id = `timeline-of-${row.index}`;
  holder.append(strip, box);
  if (row.timeline.note) holder.append(element("p", "note", row.timeline.note));
  const chart = addChart(box, `Timeline of one step of ${row.label}: ${events.length} events on ${lanes.length} lanes in ${formatTime(endOfStep(row))}`, {
    type: "bar",
    data: { labels: lanes, datasets: timelineSets(row.timeline, unit) },
    options: {
      indexAxis: "y", animation: false, responsive: true, maintainAspectRatio: false,
      scales: { x: { min: 0, max: end * unit.perSecond, ticks: { callback: (v) => formatNumber(v), maxRotation: 0 },
                     title: { display: true, text: `time since the step began (${unit.name})` } },
                y: { grid: { display: false }, ticks: { autoSkip: false } } },
      plugins: { legend: { display: false },
                 tooltip: { callbacks: { title: (items) => items[0].label, label: (item) => timelineTooltip(item, unit) } } },
    },
  }, AXIS_HEIGHT + rowHeight * lanes.length);
  makeZoomable(chart, box, buttons, end * unit.perSecond, "Show the whole step");
  setTable(box.id, `Time of one step of ${row.label}, by kind of work`, ...timelineTable(row));
}

/// Fills the two lists of rows. At first: the fastest row of several devices, and the row after it if both have few
/// workers.
function fillTimelineChoices() {
  const rows = result.rows.filter((r) => hasTimeline(r) || hasSchedule(r) || r.timeline_left_out || r.schedule_left_out), first = document.getElementById("timeline-row"), second = document.getElementById("timeline-beside");
  const options = () => rows.map((r) => Object.assign(element("option", "", r.label), { value: r.index }));
  const order = [...result.fastest.map((i) => result.rows[i]).filter((r) => rows.includes(r)), ...rows].filter((r, i, all) => all.indexOf(r) === i);
  order.sort((a, b) => (b.devices > 1) - (a.devices > 1));  // one device has nothing to coordinate
  first.append(...options());
  second.append(Object.assign(element("option", "", "nothing"), { value: "" }), ...options());
  if (order.length) first.value = order[0].index;
  const few = (r) => r.devices <= MANY_LANES / 2;
  if (order.length > 1 && few(order[0]) && few(order[1])) second.value = order[1].index;
  for (const choice of [first, second]) choice.addEventListener("change", drawAll);
  document.getElementById("timeline-choice").hidden = order.length < 2;
}

function drawTimelines() {
  const holder = document.getElementById("timelines"), chosen = ["timeline-row", "timeline-beside"].map((id) => document.getElementById(id).value).filter((v) => v !== "");
  const rows = [...new Set(chosen)].map((v) => result.rows[v]), timed = rows.filter(hasTimeline);
  holder.replaceChildren();
  drawScheduleLegend(rows.filter(hasSchedule));
  drawTimelineLegend(timed, rows.some(hasSchedule));
  const end = Math.max(...timed.map(endOfStep));
  for (const row of rows) {
    const title = element("h3", "", row.label);
    title.prepend(Object.assign(element("i", "swatch"), { style: `background: ${colourOf(row)}` }));
    holder.append(title);
    if (hasSchedule(row)) drawSchedule(row, holder);
    else if (row.schedule_left_out) holder.append(element("p", "none", "Its schedule is left out, to keep this page small; run.json has it."));
    if (hasTimeline(row)) drawTimeline(row, holder, end);
    else holder.append(element("p", "none", row.timeline_left_out ? "Its timeline is left out, to keep this page small; trace.json has it." : "No step was traced."));
  }
  if (!rows.length) holder.append(element("p", "none", "No step was traced."));
}

/// Keeps the view inside [0, whole].
function setView(chart, low, high, whole) {
  const span = Math.min(Math.max(high - low, whole * SMALLEST_VIEW), whole);
  low = Math.min(Math.max(low, 0), whole - span);
  Object.assign(chart.options.scales.x, { min: low, max: low + span });
  const values = chart.options.scales.y;
  if (chart.config.type === "line" && values.type !== "logarithmic" && values.max === undefined) values.beginAtZero = span >= whole;
  chart.update("none");
}

/// `box` takes wheel, drag, pinch and keys; `buttons` gets one button per action. `resets`: the name of the one that shows [0, whole].
function makeZoomable(chart, box, buttons, whole, resets) {
  const scale = () => chart.scales.x;
  const zoom = (factor, at) => {
    const { min, max } = scale();
    const centre = at === undefined ? (min + max) / 2 : at;
    setView(chart, centre - (centre - min) * factor, centre + (max - centre) * factor, whole);
  };
  const pan = (by) => setView(chart, scale().min + by, scale().max + by, whole);
  const reset = () => setView(chart, 0, whole, whole);
  const valueAt = (clientX) => scale().getValueForPixel(clientX - chart.canvas.getBoundingClientRect().left);

  for (const [text, label, action] of [["−", "Zoom out", () => zoom(ZOOM_STEP)], ["+", "Zoom in", () => zoom(1 / ZOOM_STEP)], ["all", resets, reset]]) {
    const button = element("button");
    button.type = "button";
    button.textContent = text;
    button.setAttribute("aria-label", label);
    button.addEventListener("click", action);
    buttons.append(button, " ");
  }
  box.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !box.contains(document.activeElement)) return;  // the page scrolls, until the chart has the focus
    event.preventDefault();
    zoom(event.deltaY > 0 ? ZOOM_STEP : 1 / ZOOM_STEP, valueAt(event.clientX));
  }, { passive: false });
  box.addEventListener("dblclick", reset);
  box.addEventListener("keydown", (event) => {
    const width = scale().max - scale().min;
    const keys = { "+": () => zoom(1 / ZOOM_STEP), "=": () => zoom(1 / ZOOM_STEP), "-": () => zoom(ZOOM_STEP), 0: reset,
                   ArrowLeft: () => pan(-width * PAN_STEP), ArrowRight: () => pan(width * PAN_STEP) };
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
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
  if (lead && pairs.length) list.append(element("li", "", lead));
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
