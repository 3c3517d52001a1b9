// The drawing of the schedule of a run's plan, stored with the run's result.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

#include "program/program.h"

namespace trireme {

/// Largest number of boxes of a drawing. More could not be told apart on a screen and would make run.json large.
constexpr size_t kMostBoxes = 4000;

/// Returns schedule_drawing (program/draw.h) with at most `most` boxes and with one more field, "shown_until": the time
/// up to which boxes are listed. It is the makespan unless the program has more boxes. A box that begins before it may
/// end after it.
nlohmann::json short_drawing(const Program& program, const Model& model, size_t most = kMostBoxes);

}  // namespace trireme
