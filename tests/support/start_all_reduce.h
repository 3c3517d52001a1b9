// Starts the operation that most tests of a queue use.
#pragma once

#include <ATen/core/Tensor.h>

#include <future>
#include <utility>

#include "comm/collective_queue.h"

namespace trireme::test_support {

/// The tensor must not be used before the handle's get() has returned.
inline std::future<OperationDone> start_all_reduce(CollectiveQueue& queue, at::Tensor tensor) {
  return queue.start([tensor = std::move(tensor)](Communicator& group) mutable { group.all_reduce(tensor); });
}

}  // namespace trireme::test_support
