// The schedule of a run's plan as a drawing that travels with its result.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

#include "program/program.h"

namespace trireme {

constexpr size_t kMostBoxes =
    4000;  ///< of one drawing: more could not be told apart on a screen, and would swell run.json

/// What schedule_drawing (program/draw.h) gives, with one more field, "shown_until": the time up to which boxes are
/// listed, at most `most` of them. That is the makespan unless the program has more boxes; a box that begins before it
/// may end after it.
nlohmann::json short_drawing(const Program& program, const Model& model, size_t most = kMostBoxes);

}  // namespace trireme
