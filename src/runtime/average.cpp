// Worker: averaged weights take the place of the raw ones for an evaluation.
#include <ATen/ATen.h>

#include <cmath>

#include "base/memory.h"
#include "runtime/worker_state.h"

namespace trireme {

/// The same shares as in update_slice, so that running statistics belong to the averaged weights.
void Worker::State::average_buffers() {
  const double ema = options.optimizer.ema;
  if (ema == 0) return;
  MemoryScope scope(MemoryCategory::optimizer);
  const double share = (1 - ema) / (1 - std::pow(ema, double(earlier_batches + batches)));
  for (const auto& [node, tensors] : buffers) {
    std::vector<at::Tensor>& averages = averaged_buffers[node];
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (averages.size() <= i) averages.push_back(at::zeros_like(tensors[i]));
      averages[i].lerp_(tensors[i], share);
    }
  }
}

void Worker::State::show_average(bool shown) {
  if (options.optimizer.ema == 0 || earlier_batches + batches == 0 || shows_average == shown) return;
  replicas->settle();
  communicator->barrier();  // nobody reads any more
  exchange_averages();
  communicator->barrier();  // everybody has written
}

void Worker::State::exchange_averages() {
  for (BucketId id : training.trainable) replicas->exchange_average(id);
  for (auto& [node, tensors] : buffers)
    for (size_t i = 0; i < tensors.size(); ++i) exchange_values(tensors[i], averaged_buffers.at(node)[i]);
  shows_average = !shows_average;
}

}  // namespace trireme
