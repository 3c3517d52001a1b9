#include "runtime/worker/averages.h"

#include <ATen/ATen.h>

#include <cmath>

#include "base/devices/device.h"
#include "base/memory.h"
#include "runtime/optimizer.h"
#include "runtime/replicas/flat_shard.h"

namespace trireme {

/// Uses the same shares as update_slice, so that running statistics match the averaged weights.
void Averages::add_step(int64_t steps) {
  const double ema = context_.options.optimizer.ema;
  if (ema == 0) return;
  MemoryScope scope(MemoryCategory::optimizer);
  const double share = (1 - ema) / (1 - std::pow(ema, double(steps)));
  for (const auto& [node, tensors] : buffers_.all()) {
    std::vector<at::Tensor>& averages = averages_[node];
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (averages.size() <= i) averages.push_back(at::zeros_like(tensors[i]));
      averages[i].lerp_(tensors[i], share);
    }
  }
}

void Averages::show(bool shown, int64_t steps, const std::vector<BucketId>& trainable) {
  if (context_.options.optimizer.ema == 0 || steps == 0 || shown_ == shown) return;
  context_.replicas.settle();
  context_.world.barrier();  // all reads are done
  exchange(trainable);
  context_.world.barrier();  // all writes are done
}

void Averages::hide_alone(const std::vector<BucketId>& trainable) {
  if (shown_) exchange(trainable);
}

void Averages::exchange(const std::vector<BucketId>& trainable) {
  for (BucketId id : trainable) context_.replicas.exchange_average(id);
  for (const auto& [node, tensors] : buffers_.all())
    for (size_t i = 0; i < tensors.size(); ++i) {
      at::Tensor buffer = tensors[i];
      exchange_values(buffer, averages_.at(node)[i]);
    }
  shown_ = !shown_;
}

void Averages::add_held(const Op& op, std::vector<HeldPart>& held) const {
  const auto averages = averages_.find(op.node);
  if (averages == averages_.end()) return;
  const auto specs = context_.model.node(op.node).layer->buffers();
  for (size_t i = 0; i < specs.size(); ++i)
    held.push_back({specs[i].name, specs[i].shape, buffer_box(op, i, specs[i], context_.rank), averages->second[i]});
}

void Averages::resume(const Op& op, const TrainingState& from) {
  const auto specs = context_.model.node(op.node).layer->buffers();
  if (specs.empty() || from.averaged_buffers.empty()) return;
  MemoryScope scope(MemoryCategory::optimizer);
  std::vector<at::Tensor>& averages = averages_[op.node];
  averages.clear();
  for (size_t i = 0; i < specs.size(); ++i) {
    const Box box = buffer_box(op, i, specs[i], context_.rank);
    averages.push_back(
        part_of(from.averaged_buffers.at(specs[i].name), box)
            .to(worker_place(), master_type(context_.precision), false, true, at::MemoryFormat::Contiguous));
  }
}

}  // namespace trireme
