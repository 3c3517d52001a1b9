// Which rows the charts show: chips for strategies, numbers of devices and runs, and a box at each line of the comparison's table.
"use strict";

const hiddenRows = new Set();
function shownRows() { return result.rows.filter((row) => !hiddenRows.has(row.index)); }

/// Shows all rows of a chip, or hides them if all are shown.
function toggle(rows) {
  const hide = rows.every((row) => !hiddenRows.has(row.index));
  for (const row of rows) hide ? hiddenRows.add(row.index) : hiddenRows.delete(row.index);
  updateChoice();
  drawAll();
}

const choices = [];  // functions that bring chips and boxes up to date
function updateChoice() {
  for (const update of choices) update();
  const hidden = hiddenRows.size;
  document.getElementById("hidden-count").textContent = hidden ? `${hidden} of ${result.rows.length} rows hidden` : "";
  document.getElementById("show-all").hidden = !hidden;
}

function chip(text, rows, colour) {
  const button = element("button", "chip");
  button.type = "button";
  if (colour) {
    const swatch = element("i");
    choices.push(() => { swatch.style.background = colour(); });
    button.append(swatch);
  }
  button.append(text);
  button.addEventListener("click", () => toggle(rows));
  choices.push(() => {
    const shown = rows.filter((row) => !hiddenRows.has(row.index)).length;
    button.setAttribute("aria-pressed", shown === rows.length ? "true" : shown ? "mixed" : "false");
    button.title = `${shown ? shown === rows.length ? "shown" : `${shown} of ${rows.length} rows shown` : "hidden"}: press to ${shown === rows.length ? "hide" : "show"}`;
  });
  return button;
}

function fillChips() {
  const bar = document.getElementById("chips"), rows = result.rows;
  const group = (label, chips) => {
    const holder = element("div", "chips");
    holder.setAttribute("role", "group");
    holder.setAttribute("aria-label", label);
    holder.append(element("span", "chips-title", label), ...chips);
    bar.insertBefore(holder, document.getElementById("show-all"));
  };
  if (result.runs.length > 1) group("Runs", result.runs.map((run, i) => chip(run.name, rows.filter((r) => r.run === i))));
  group("Strategies", [...strategyPlaces.keys()].map((name) => chip(name, rows.filter((r) => r.variant === name), () => colourOfName(name))));
  if (deviceCounts.length > 1) group("Devices", deviceCounts.map((n) => chip(`${n}`, rows.filter((r) => r.devices === n))));
  document.getElementById("show-all").addEventListener("click", () => {
    hiddenRows.clear();
    updateChoice();
    drawAll();
  });
  if (rows.length >= FILTERED_ROWS) fillFilter();
  bar.hidden = rows.length < 2;
}

const FILTERED_ROWS = 8;  // from this many rows on there is a field to filter them

/// A field that shows only the rows whose name contains every word in it.
function fillFilter() {
  const bar = document.getElementById("chips"), field = element("input", "filter");
  field.type = "search";
  field.placeholder = "filter rows";
  field.setAttribute("aria-label", "Show only the rows whose name contains these words");
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter((word) => word);
    hiddenRows.clear();
    document.body.classList.toggle("filtered", words.length > 0);
    for (const row of result.rows)
      if (!words.every((word) => row.label.toLowerCase().includes(word))) hiddenRows.add(row.index);
    updateChoice();
    drawAll();
  });
  document.getElementById("show-all").addEventListener("click", () => {
    field.value = "";
    document.body.classList.remove("filtered");
  });
  bar.prepend(field);
}

/// Compares two cells of a column: numbers by value, words by the alphabet; empty cells come last in either order.
function compareCells(a, b, numeric, sign) {
  const key = (cell) => numeric ? Number.parseFloat(cell.textContent.replaceAll(",", "")) : cell.textContent;
  const none = (value) => value === "" || value === "–" || Number.isNaN(value);
  const x = key(a), y = key(b);
  if (none(x) || none(y)) return none(x) - none(y);
  return sign * (numeric ? x - y : x.localeCompare(y, undefined, { numeric: true }));
}

/// Sorts a table by a column at each press on its heading: up, down, and as it was.
function makeSortable(table) {
  const lines = [...table.tBodies[0].rows], headings = [...table.tHead.rows[0].cells];
  if (lines.length < 2) return;
  headings.forEach((heading, column) => {
    // Not a button element: the heading that each printed page repeats would leave it out.
    const button = element("span", "sort");
    button.setAttribute("role", "button");
    button.tabIndex = 0;
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      button.click();
    });
    button.addEventListener("click", () => {
      const order = { ascending: "descending", descending: null }[heading.getAttribute("aria-sort")];
      for (const other of headings) other.removeAttribute("aria-sort");
      if (order === null) return table.tBodies[0].append(...lines);
      heading.setAttribute("aria-sort", order ?? "ascending");
      const numeric = heading.classList.contains("n"), sign = order ? -1 : 1;
      const compare = (a, b) => compareCells(a.cells[column], b.cells[column], numeric, sign);
      table.tBodies[0].append(...[...lines].sort(compare));
    });
  });
}

/// Adds a box and the colour to the line of each row in the tables.
function fillRowBoxes() {
  for (const line of document.querySelectorAll("tr[data-row]")) {
    const row = result.rows[line.dataset.row], box = element("input"), swatch = element("i", "swatch"), cell = line.querySelector("th");
    box.type = "checkbox";
    box.setAttribute("aria-label", `Show ${row.label} in the charts`);
    box.addEventListener("change", () => toggle([row]));
    choices.push(() => {
      box.checked = !hiddenRows.has(row.index);
      line.classList.toggle("off", !box.checked);
      swatch.style.background = colourOf(row);
    });
    cell.prepend(...(result.rows.length > 1 ? [box] : []), swatch);
  }
}

/// Hides links to sections that are hidden, and marks the section that is on the screen.
function fillJumpList() {
  const links = [...document.querySelectorAll("#jump a")], onScreen = new Set();
  const section = (link) => document.querySelector(link.getAttribute("href"));
  choices.push(() => { for (const link of links) link.hidden = !section(link) || section(link).hidden; });
  if (!window.IntersectionObserver) return;
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) entry.isIntersecting ? onScreen.add(entry.target) : onScreen.delete(entry.target);
    const first = links.find((link) => onScreen.has(section(link)));
    for (const link of links) link === first ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
  }, { rootMargin: "-110px 0px -40% 0px" });
  for (const link of links) if (section(link)) observer.observe(section(link));
}
