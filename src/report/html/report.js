// Draws the page from the JSON in #data; names are those of run.json (docs/run-folder.md).
"use strict";

function drawAll() {
  for (const chart of charts.splice(0)) chart.destroy();
  Object.assign(Chart.defaults, { color: cssColour("--soft"), borderColor: cssColour("--line") });
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  drawTimes();
  drawSpeedup();
  drawSplit();
  drawBlocks();
  drawLosses();
  drawMetric();
  drawWorkers();
  drawStaleness();
  drawMemory();
  drawTimelines();
}

const PRINTED_COLUMNS = 8;  // that fit side by side on A4, beside the first two, which name the row

/// Puts a table that is too wide for paper into parts, each with the columns that name the row. Returns the parts.
function tableInParts(table) {
  const count = table.tHead.rows[0].cells.length, parts = [];
  if (count <= PRINTED_COLUMNS + 2) return parts;
  for (let from = 2; from < count; from += PRINTED_COLUMNS) {
    const part = table.cloneNode(true);
    for (const row of part.rows)
      for (let i = count - 1; i >= 2; --i) if (i < from || i >= from + PRINTED_COLUMNS) row.deleteCell(i);
    parts.push(part);
  }
  table.classList.add("in-parts");
  table.after(...parts);
  return parts;
}

/// On paper: light colours, the width of A4, and the written tables open, because charts may show only a part of their numbers.
function preparePrint() {
  const opened = [], parts = [];
  const redraw = (printing) => {
    document.documentElement.classList.toggle("printing", printing);
    updateChoice();
    drawAll();
  };
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details.printed:not([open])")) {
      details.open = true;
      opened.push(details);
    }
    for (const table of document.querySelectorAll(".scroll > table")) parts.push(...tableInParts(table));
    redraw(true);
  });
  window.addEventListener("afterprint", () => {
    for (const details of opened.splice(0)) details.open = false;
    for (const part of parts.splice(0)) part.remove();
    redraw(false);
  });
}

fillChips();
fillRowBoxes();
for (const table of document.querySelectorAll(".scroll > table")) makeSortable(table);
fillJumpList();
fillCurveChoices();
fillTimelineChoices();
document.getElementById("block-devices").addEventListener("change", drawAll);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { updateChoice(); drawAll(); });
preparePrint();
drawAll();
updateChoice();
