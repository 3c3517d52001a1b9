#include "runtime/worker/transfers.h"

#include <ATen/ATen.h>

#include <utility>

#include "base/devices/device.h"

namespace trireme {

void TransferExecution::run(const Program& program, const Instruction& instruction, const BatchInFlight& batch,
                            MicroBatch& part) {
  const Redistribution& move = program.redistributions[size_t(instruction.index)];
  const RedistributionEnds ends = ends_of(move, program, instruction.adjoint);
  const Shape shape = batch.global_shape(program.values[size_t(move.from)].node, part);
  // Sends match receives by redistribution, direction and micro-batch. Those of several batches, and those of a
  // redistribution that runs again, arrive in order.
  const int64_t tag =
      (int64_t(instruction.index) * 2 + instruction.adjoint) * program.micro_batches + instruction.micro_batch;

  at::Tensor local;
  if (ends.from.mesh.index_of(context_.rank) >= 0) {
    auto& source = instruction.adjoint ? part.gradients[size_t(move.to)] : part.values[size_t(move.from)];
    local = source;
    if (instruction.adjoint) source = at::Tensor();
    if (!local.defined())  // no layer of this worker produced a gradient: it is zero
      local = at::zeros(shape_of(ends.from.box_of(context_.rank, shape)), on_worker(compute_type(context_.precision)));
  }
  at::Tensor result = redistributor_.run(local, ends.from, ends.to, shape, tag);
  if (!instruction.adjoint && local.defined()) part.use_up(program, move.from);
  if (!result.defined()) return;
  if (instruction.adjoint) part.add_gradient(program, move.from, result);
  else part.values[size_t(move.to)] = std::move(result);
}

}  // namespace trireme
