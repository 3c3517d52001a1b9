// The strategy of each block of the model: a lane per row, a cell per block, in the colour of its layers' parallelism.
"use strict";

// Shades of slate, because other colours mean strategies; the names are those of the legend.
const GOT_KINDS = {
  data: { name: "data", colour: "#8ea2b5", ink: "#1b2229" },
  tensor: { name: "tensor", colour: "#5f7488", ink: "#ffffff" },
  both: { name: "data and tensor", colour: "#33475a", ink: "#ffffff" },
  copies: { name: "replicated: the same work on all", colour: "#c9a9b7", ink: "#1b2229" },
  stage: { name: "pipeline stage of one device", colour: "#cdd6de", ink: "#1b2229" },
  alone: { name: "one device", colour: "#e6e9ec", ink: "#1b2229" },
};
const BLOCK_LANE = 26, BLOCK_AXES = 100, LONGEST_BLOCK_NAME = 14;

/// Kind of a strategy text. "data 8, data 4 x tensor 2" means that the block's layers differ.
function kindOfBlock(strategy, stages) {
  const data = /\bdata \d/.test(strategy), tensor = /\btensor \d/.test(strategy);
  if (data && tensor) return "both";
  if (data || tensor) return data ? "data" : "tensor";
  if (strategy.includes("copies")) return "copies";
  return stages > 1 ? "stage" : "alone";
}

/// "s1: 4 x 2": the stage, if there are several, and the degrees.
function blockText({ stage, strategy }, stages) {
  const degrees = strategy.replace(/data |tensor | copies/g, "").replace("one device", "");
  if (stages === 1) return degrees;
  return degrees ? `s${stage}: ${degrees}` : `s${stage}`;
}

/// The row's blocks with unique names: "top" for the first block of that name and "top 2" for a later one. If a stage boundary
/// divides a block, all its parts have the block's name.
function namedBlocks(row) {
  const times = new Map();
  return row.blocks.map((b, i) => {
    if (i === 0 || row.blocks[i - 1].block !== b.block) times.set(b.block, (times.get(b.block) || 0) + 1);
    return { ...b, name: times.get(b.block) > 1 ? `${b.block} ${times.get(b.block)}` : b.block };
  });
}
function blockNames(rows) { return [...new Set(rows.flatMap((row) => namedBlocks(row).map((b) => b.name)))]; }

/// All blocks have the same width; the parts of a block share it in proportion to their layers.
function blockCells(row, lane, names) {
  const layers = new Map(), filled = new Map(), stages = new Set(row.blocks.map((b) => b.stage)).size;
  for (const b of namedBlocks(row)) layers.set(b.name, (layers.get(b.name) || 0) + b.layers);
  return namedBlocks(row).map((b, i) => {
    const before = filled.get(b.name) || 0, from = names.indexOf(b.name), whole = layers.get(b.name);
    filled.set(b.name, before + b.layers);
    return { x: [from + before / whole, from + (before + b.layers) / whole], y: lane, text: blockText(b, stages),
             kind: kindOfBlock(b.strategy, stages), begins: i > 0 && row.blocks[i - 1].stage !== b.stage, block: b, row, stages };
  });
}

function blockSets(rows, lanes, names) {
  const cells = rows.flatMap((row, i) => blockCells(row, lanes[i], names));
  return Object.keys(GOT_KINDS).filter((kind) => cells.some((c) => c.kind === kind)).map((kind) => ({
    label: GOT_KINDS[kind].name, ink: GOT_KINDS[kind].ink, data: cells.filter((c) => c.kind === kind), backgroundColor: GOT_KINDS[kind].colour,
    textsDiffer: true, grouped: false, barPercentage: 0.8, categoryPercentage: 1, borderSkipped: false,
    borderWidth: ({ raw }) => ({ left: raw.begins ? 3 : 0.5, right: 0.5 }),
    borderColor: ({ raw }) => cssColour(raw.begins ? "--ink" : "--paper"),
  }));
}

function blockTooltip({ block, stages }) {
  const lines = [`${block.name}: ${block.strategy}`, `${block.layers} ${block.layers === 1 ? "layer" : "layers"}`];
  return stages > 1 ? [...lines, `stage ${block.stage}`] : lines;
}

/// The rows of the chosen number of devices; all, if they are few. The choice begins with that of the fastest row of
/// several devices.
function chosenBlocks() {
  const rows = shownRows().filter((r) => r.blocks.length), counts = deviceCounts.filter((n) => rows.some((r) => r.devices === n));
  const choice = document.getElementById("block-devices"), few = rows.length <= MOST_BARS || counts.length < 2;
  document.getElementById("block-choice").hidden = few;
  if (few) return rows;
  const fastest = result.fastest.map((i) => result.rows[i]).find((r) => r.devices > 1);
  const before = Number(choice.value) || (fastest ? fastest.devices : 0);
  const now = counts.includes(before) ? before : counts[counts.length - 1];
  choice.replaceChildren(...counts.map((n) => Object.assign(element("option", "", `${n}`), { value: n, selected: n === now })));
  return rows.filter((r) => r.devices === now);
}

function drawBlocks() {
  const rows = chosenBlocks(), names = blockNames(rows), lanes = rows.map((_, i) => `${i}`);
  const short = (name) => name.length > LONGEST_BLOCK_NAME ? `${name.slice(0, LONGEST_BLOCK_NAME - 1)}…` : name;
  if (!prepare("block-chart", rows.length)) return;
  addChart(document.getElementById("block-chart"), `Strategy of each block: ${rows.map((r) => `${r.label}: ${[...new Set(r.blocks.map((b) => b.strategy))].join("; ")}`).join(". ")}`, {
    type: "bar",
    data: { labels: lanes, datasets: blockSets(rows, lanes, names) },
    options: {
      indexAxis: "y", animation: false, responsive: true, maintainAspectRatio: false, swatches: rows.map(colourOf),
      scales: { x: { min: 0, max: names.length, title: { display: true, text: "blocks, from input to output" }, grid: { display: false },
                     afterBuildTicks: (scale) => { scale.ticks = names.map((_, i) => ({ value: i + 0.5 })); },
                     ticks: { callback: (v) => short(names[Math.floor(v)]), maxRotation: 90 } },
                y: { grid: { display: false }, ticks: { autoSkip: false, padding: SWATCH_PADDING, callback: (lane) => shortName(rows[lane]) } } },
      plugins: { legend: { position: "bottom", labels: { boxWidth: 14 } },
                 tooltip: { callbacks: { title: (items) => items.length ? items[0].raw.row.label : "", label: (item) => blockTooltip(item.raw) } } },
    },
    plugins: [boxNumbers, swatches],
  }, BLOCK_AXES + BLOCK_LANE * rows.length);
}
