// Checks of a step's gradients, and the factors by which its update scales them.
#pragma once

#include <string>

#include "program/program.h"
#include "runtime/step.h"
#include "runtime/worker/batches_in_flight.h"
#include "runtime/worker/context.h"
#include "runtime/worker/deferred_numbers.h"
#include "runtime/worker/prepared_program.h"

namespace trireme {

/// Call it before `reduction`, which adds other workers' gradients. Returns the first parameter of its bucket for which
/// this worker's own gradient contains an infinity or a NaN. Returns "" if there is none, replicas are shared, or the
/// gradient is not complete yet. On a device it returns "" and adds the check to `numbers`, which reports it at the end
/// of the step.
std::string not_finite_before(const Instruction& reduction, const Program& program, Replicas& replicas,
                              DeferredNumbers& numbers);

/// Executes OpCode::clip_gradients; all ranks together. Waits for the sums of all gradients. Sets the batch's
/// clip_scale and, for a layer-wise optimizer, its trust. `outcome` gets the squared norm of the gradient.
void scale_gradients(const WorkerContext& context, const PreparedProgram& prepared, BatchInFlight& batch,
                     StepOutcome& outcome);

}  // namespace trireme
