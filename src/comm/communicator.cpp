#include "trireme/communicator.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/seconds.h"

namespace trireme {

void Communicator::all_reduce_into(const at::Tensor& input, at::Tensor& output, ReduceOp op) {
  at::NoGradGuard no_grad;
  if (!output.is_same(input)) output.copy_(input);
  all_reduce(output, op);
}

double Communicator::now() const { return steady_seconds(); }

}  // namespace trireme
