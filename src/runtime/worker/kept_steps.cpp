#include "runtime/worker/kept_steps.h"

#include <ATen/ATen.h>

#include <utility>

#include "base/memory.h"

namespace trireme {

void KeptSteps::begin() {
  if (!context_.options.keeps_whole_steps || context_.rank != 0) return;  // only rank 0's are ever restored
  const MemoryScope scope(MemoryCategory::buffers);
  in_step_ = true;
  for (const auto& [node, tensors] : buffers_.all()) {
    std::vector<at::Tensor>& kept = before_[node];
    kept.resize(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i)
      if (kept[i].defined()) kept[i].copy_(tensors[i]);
      else kept[i] = tensors[i].clone();
  }
}

void KeptSteps::agree(int64_t step, double loss_sum) {
  if (!context_.options.keeps_whole_steps || updates_) return;
  context_.replicas.await_sums();
  at::Tensor losses = at::zeros({context_.world.size()}, at::kDouble);
  losses[context_.rank] = loss_sum;
  context_.world.all_reduce(losses);
  const double* values = losses.data_ptr<double>();
  steps_.losses[step] = {values, values + losses.numel()};
  updates_ = true;
}

void KeptSteps::end(int64_t step) {
  if (!context_.options.keeps_whole_steps) return;
  in_step_ = updates_ = false;
  steps_.done = step;
  std::erase_if(steps_.losses, [step](const auto& entry) { return entry.first < step - 1; });
}

void KeptSteps::restore_statistics() {
  steps_.losses.erase(steps_.done + 1);
  if (!std::exchange(in_step_, false)) return;
  for (const auto& [node, tensors] : buffers_.all())
    for (size_t i = 0; i < tensors.size(); ++i) at::Tensor(tensors[i]).copy_(before_.at(node)[i]);
}

}  // namespace trireme
