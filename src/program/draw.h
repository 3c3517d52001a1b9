// Drawings of a program's schedule on the unit clock.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "program/program.h"

namespace trireme {

/// A drawing for terminals, at most `columns` wide (but at least 4 units of time); lines end with '\n'. Time runs to
/// the right; a row per worker, or one for the workers of a stage that do the same at the same time:
///
///                      0         5         10        15
///   worker 0, stage 0 |0 1 ....b0  2 b1  3 b2  ..b3  |
///
/// `0` forward of micro-batch 0, `b0` its backward (of the inputs only, where `w0`, of the weights, comes later), `r0`
/// the forward again for backward; `.` idle. A letter in front tells the chunk of a worker that has several stages.
/// Without flush the first batches are shown, numbered by batch, or batch.micro-batch. Below stand the legend and the
/// bubble share in per cent.
std::string draw_schedule(const Program& program, const Model& model, int columns);

/// The same for the report: {"unit", "makespan", "batches", "micro_batches", "flushes", "bubble" (share; null without
/// flush), "rows": [{"label", "workers", "stages", "bubble", "boxes": [{"begin", "end", "kind", "stage", "micro_batch",
/// "batch"}]}]}. Times in units of one forward of a worker; kinds are forward, backward, backward_input,
/// backward_weight and recompute.
nlohmann::json schedule_drawing(const Program& program, const Model& model);

}  // namespace trireme
