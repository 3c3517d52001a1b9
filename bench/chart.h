// Charts of benchmark results as SVG text for docs/.
#pragma once

#include <string>
#include <utility>
#include <vector>

/// One panel: lines over a logarithmic axis of whole numbers (devices, layers).
struct ChartPanel {
  struct Line {
    std::string name;                                 ///< shown if there are several lines
    std::vector<std::pair<int, double>> points = {};  ///< ascending, from 1 on; values > 0 if logarithmic
  };
  std::string title, x_title;
  bool logarithmic = false;  ///< true: the axis of values is logarithmic too; false: it begins at 0
  std::vector<Line> lines = {};
};

/// Draws the panels below each other.
std::string svg_chart(const std::vector<ChartPanel>& panels);
