// Charts of what benchmarks measured, as SVG text for docs/.
#pragma once

#include <string>
#include <utility>
#include <vector>

/// One panel: lines over a logarithmic axis of whole numbers (devices, layers).
struct ChartPanel {
  struct Line {
    std::string name;                                 ///< shown where there are several
    std::vector<std::pair<int, double>> points = {};  ///< ascending, from 1 on; values > 0 where they are logarithmic
  };
  std::string title, x_title;
  bool logarithmic = false;  ///< values too; else they begin at 0
  std::vector<Line> lines = {};
};

/// Panels below each other.
std::string svg_chart(const std::vector<ChartPanel>& panels);
