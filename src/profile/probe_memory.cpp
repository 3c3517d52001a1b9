// What one call of a layer holds: told by the accounting allocator, and by which storages outlive their last user.
#include <ATen/ATen.h>

#include <algorithm>

#include "base/memory.h"
#include "profile/probe_call.h"

namespace trireme {
namespace {

using Watch = c10::weak_intrusive_ptr<c10::StorageImpl>;

c10::StorageImpl* storage_of(const at::Tensor& tensor) { return tensor.defined() ? tensor.storage().unsafeGetStorageImpl() : nullptr; }
Watch watch(const at::Tensor& tensor) { return tensor.storage().getWeakStorageImpl(); }
int64_t held(int device) { return memory_use(device).total(); }

/// Input gradients by storage: each counts where it is met first, none that is the output gradient's.
std::vector<int64_t> gradient_bytes(const std::vector<at::Tensor>& gradients, const at::Tensor& output_gradient) {
  std::vector<c10::StorageImpl*> seen{storage_of(output_gradient)};
  std::vector<int64_t> bytes;
  for (const at::Tensor& gradient : gradients) {
    c10::StorageImpl* storage = storage_of(gradient);
    const bool fresh = storage != nullptr && std::find(seen.begin(), seen.end(), storage) == seen.end();
    bytes.push_back(fresh ? int64_t(gradient.storage().nbytes()) : 0);
    seen.push_back(storage);
  }
  return bytes;
}

void measure_backward(const ProbeSetting& setting, ProbeCall& call, int device, LayerMemory& memory) {
  memory.input_gradients.assign(setting.site->inputs.size(), 0);
  if (!setting.site->differentiated) return;
  const at::Tensor output_gradient = call.make_output_gradient();
  const int64_t before = held(device);
  reset_memory_peak(device);
  const std::vector<at::Tensor> gradients = setting.site->layer->backward(call, output_gradient);
  memory.input_gradients = gradient_bytes(gradients, output_gradient);
  int64_t given = 0;
  for (int64_t bytes : memory.input_gradients) given += bytes;
  memory.backward_workspace = std::max<int64_t>(0, memory_use(device).peak - before - given);
}

}  // namespace

LayerMemory measure_memory(const ProbeSetting& setting, ProbeCall& call, int device) {
  LayerMemory memory;
  call.begin();
  std::vector<at::Tensor> inputs = call.make_inputs();
  std::vector<c10::StorageImpl*> of_inputs;
  std::vector<Watch> watches;
  for (const at::Tensor& input : inputs) {
    of_inputs.push_back(storage_of(input));
    watches.push_back(watch(input));
  }
  const int64_t before = held(device);
  reset_memory_peak(device);
  at::Tensor output = setting.site->layer->forward(call, inputs);
  const int64_t after = held(device) - before, peak = memory_use(device).peak - before;
  memory.forward_workspace = std::max<int64_t>(0, peak - after);
  const auto shared = std::find(of_inputs.begin(), of_inputs.end(), storage_of(output));
  if (shared != of_inputs.end()) memory.output_shares_input = int(shared - of_inputs.begin());
  else memory.output = int64_t(output.storage().nbytes());
  const Watch output_watch = watch(output);
  // states belong to the step after, scratch to the worker
  const int64_t scratch = call.scratch().defined() ? int64_t(call.scratch().storage().nbytes()) : 0;
  memory.saved = std::max<int64_t>(0, after - memory.output - call.next_state_bytes() - scratch);
  inputs.clear();
  output.reset();
  for (const Watch& input : watches) memory.keeps_input.push_back(setting.site->differentiated && !input.expired());
  memory.keeps_output = setting.site->differentiated && memory.output_shares_input < 0 && !output_watch.expired();
  if (!setting.site->differentiated) memory.saved = 0;  // the runtime drops the call at once
  measure_backward(setting, call, device, memory);
  call.begin();
  return memory;
}

}  // namespace trireme
