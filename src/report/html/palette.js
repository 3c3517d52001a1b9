// Colours of the page. A strategy has one colour in every chart and on every number of devices. Kinds of work, memory and parallelism
// have other colours: shades of grey and brown, and crimson for communication.
"use strict";

// From Okabe and Ito's palette (distinct under the common colour blindnesses), without grey and pink; violet and olive are added.
const STRATEGY_COLOURS = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#8a63d2", "#a39a00"];
// Places of common strategies, so that two reports agree where they can.
const USUAL_PLACES = { data: 0, tensor: 1, pipeline: 2, "hybrid:tensor": 3, "hybrid:pipeline": 4, single: 5, "1f1b": 6 };
const SHADES = [[0, "--ink"], [0.45, "--ink"], [0.4, "--paper"]];  // of each colour: itself, nearer to the ink, nearer to the paper
const DASHES = [[], [7, 3], [2, 3], [10, 3, 2, 3], [14, 4], [4, 4], [1, 2], [8, 2, 1, 2]];  // by number of devices

function cssColour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

/// `share` of `other` in `colour`; both are "#rrggbb".
function mixed(colour, other, share) {
  const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  const [a, b] = [channels(colour), channels(other)];
  return `#${a.map((v, i) => Math.round(v + (b[i] - v) * share).toString(16).padStart(2, "0")).join("")}`;
}

/// Number of the colour of each strategy: its usual place if that is free, otherwise the first free one.
function placesOf(names) {
  const places = new Map(), taken = new Set();
  const take = (name, place) => { places.set(name, place); taken.add(place); };
  for (const name of names) if (name in USUAL_PLACES) take(name, USUAL_PLACES[name]);
  for (const name of names) {
    if (places.has(name)) continue;
    let place = 0;
    while (taken.has(place)) ++place;
    take(name, place);
  }
  return places;
}

const strategyPlaces = placesOf([...new Set(result.rows.map((r) => r.variant))]);
function colourOfName(name) {
  const place = strategyPlaces.get(name), turn = Math.floor(place / STRATEGY_COLOURS.length) % SHADES.length;
  return mixed(STRATEGY_COLOURS[place % STRATEGY_COLOURS.length], cssColour(SHADES[turn][1]), SHADES[turn][0]);
}
function colourOf(row) { return colourOfName(row.variant); }

const deviceCounts = [...new Set(result.rows.map((r) => r.devices))].sort((a, b) => a - b);
/// Lines of one strategy differ by their dashes: by number of devices, and by run where two are shown.
function dashOf(row) { return DASHES[(deviceCounts.indexOf(row.devices) + (row.run ? 4 : 0)) % DASHES.length]; }

/// Draws the strategy's colour beside each label of a chart with one bar per row; the config has `swatches`: one colour per label.
const swatches = {
  id: "swatches",
  afterDraw(chart) {
    const colours = chart.config.options.swatches;
    if (!colours) return;
    const { ctx, chartArea, scales } = chart;
    ctx.save();
    colours.forEach((colour, i) => {
      ctx.fillStyle = colour;
      ctx.fillRect(chartArea.left - 15, scales.y.getPixelForValue(i) - 5, 10, 10);
    });
    ctx.restore();
  },
};
const SWATCH_PADDING = 16;
