// What `trireme calibrate` prints.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cost/calibration/calibrate.h"

namespace trireme {

struct CalibratedRow {
  std::string name, plan;
  int devices = 1;
  double measured = 0, before = 0, after = 0;  ///< seconds
  std::optional<double> left_out;              ///< predicted by a fit without this row
  bool is_held = false;                        ///< not fitted
};

struct CalibratedConstant {
  std::string key, before, after;  ///< values as the file gives them; `after` is `before` of a constant that was left
  double value_before = 0, value_after = 0;
};

struct CalibrationReport {
  std::string cluster, rows_file;
  std::vector<CalibratedRow> rows;
  std::vector<CalibratedConstant> constants;  ///< those that could be fitted
  CalibrationFit fit;                         ///< of the rows that are not held, and these constants
};

/// The rows with errors, what was fitted and what was left, and why.
std::string calibration_text(const CalibrationReport& report);
nlohmann::json calibration_json(const CalibrationReport& report);

}  // namespace trireme
