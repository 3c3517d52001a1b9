// Draws the charts of scripts: draw_chart FILE < PANELS. PANELS is JSON as in chart.h, [{"title": "", "x_title": "",
// "logarithmic": true, "lines": [{"name": "", "points": [[1, 2.5], …]}]}]. The SVG image is written to FILE.
#include <fmt/format.h>

#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/json_file.h"
#include "chart.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: draw_chart FILE < PANELS\n");
    return 2;
  }
  try {
    std::vector<ChartPanel> panels;
    for (const nlohmann::json& from : nlohmann::json::parse(std::cin)) {
      ChartPanel& panel = panels.emplace_back();
      panel.title = from.at("title");
      panel.x_title = from.at("x_title");
      panel.logarithmic = from.at("logarithmic");
      for (const nlohmann::json& line : from.at("lines")) panel.lines.push_back({line.at("name"), line.at("points")});
    }
    trireme::write_file_atomically(argv[1], svg_chart(panels));
  } catch (const std::exception& error) {
    fmt::print(stderr, "draw_chart: {}\n", error.what());
    return 1;
  }
}
