// Drawings of a program's schedule in nominal time (clock.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "program/program.h"

namespace trireme {

/// A drawing for terminals, at most `columns` wide but at least 4 units of time. Lines end with '\n'. Time runs to the
/// right. There is one row per worker, or one for all workers of a stage that do the same at the same time:
///
///                      0         5         10        15
///   worker 0, stage 0 |0 1 ....b0  2 b1  3 b2  ..b3  |
///
/// `0` is the forward of micro-batch 0; `b0` its backward (of the inputs only, if `w0`, the backward of the weights,
/// comes later); `r0` its recomputed forward; `.` is idle. A letter before the number is the chunk, for a worker with
/// several stages. Without flush, the first batches are shown, numbered as batch or batch.micro-batch. The legend and
/// the bubble share in per cent follow.
std::string draw_schedule(const Program& program, const Model& model, int columns);

/// The same for the report: {"unit", "makespan", "batches", "micro_batches", "flushes", "bubble" (share; null without
/// flush), "rows": [{"label", "workers", "stages", "bubble", "boxes": [{"begin", "end", "kind", "stage", "micro_batch",
/// "batch"}]}]}. Times are in units of one forward of a worker. Kinds are forward, backward, backward_input,
/// backward_weight and recompute.
nlohmann::json schedule_drawing(const Program& program, const Model& model);

}  // namespace trireme
