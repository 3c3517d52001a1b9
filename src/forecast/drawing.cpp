#include "forecast/drawing.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "program/draw.h"

namespace trireme {

nlohmann::json short_drawing(const Program& program, const Model& model, size_t most) {
  using nlohmann::json;
  json drawing = schedule_drawing(program, model);
  double until = drawing.at("makespan").get<double>();
  std::vector<double> begins;
  for (const json& row : drawing.at("rows"))
    for (const json& box : row.at("boxes")) begins.push_back(box.at("begin").get<double>());
  if (begins.size() > most) {
    // in all rows, boxes that begin at the same time are kept or removed together
    std::nth_element(begins.begin(), begins.begin() + std::ptrdiff_t(most), begins.end());
    until = begins[most];
    for (json& row : drawing.at("rows")) {
      json kept = json::array();
      for (json& box : row.at("boxes"))
        if (box.at("begin").get<double>() < until) kept.push_back(std::move(box));
      row.at("boxes") = std::move(kept);
    }
  }
  drawing["shown_until"] = until;
  return drawing;
}

}  // namespace trireme
