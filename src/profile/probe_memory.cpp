// Memory of one layer call, from the accounting allocator and from the storages that remain after their last use.
#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "base/memory.h"
#include "profile/probe_call.h"

namespace trireme {
namespace {

using Watch = c10::weak_intrusive_ptr<c10::StorageImpl>;

c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}
Watch watch(const at::Tensor& tensor) { return tensor.storage().getWeakStorageImpl(); }
int64_t held(int device) { return memory_use(device).total(); }

/// Bytes of the input gradients. A shared storage counts once, at its first use; the output gradient's storage counts
/// 0.
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
  int64_t early = 0;  // peak before the first parameter's gradient
  bool adds = false;
  call.on_parameter_gradient([&] {
    early = memory_use(device).peak - before;
    adds = true;
    reset_memory_peak(device);
  });
  reset_memory_peak(device);
  const std::vector<at::Tensor> gradients = setting.site->layer->backward(call, output_gradient);
  call.on_parameter_gradient(nullptr);
  memory.input_gradients = gradient_bytes(gradients, output_gradient);
  int64_t given = 0;
  for (int64_t bytes : memory.input_gradients) given += bytes;
  const int64_t late = memory_use(device).peak - before;
  memory.backward_workspace = std::max<int64_t>(0, std::max(early, late) - given);
  memory.parameter_workspace = adds ? std::max<int64_t>(0, late - given) : 0;
}

/// Measures a backward in two parts.
void measure_deferred(const ProbeSetting& setting, ProbeCall& call, int device, LayerMemory& memory) {
  if (!setting.site->differentiated || !setting.site->layer->splits_backward()) return;
  call.begin();
  const int64_t before = held(device);
  std::vector<at::Tensor> inputs = call.make_inputs();
  std::vector<std::pair<Watch, int64_t>> others;
  for (const at::Tensor& input : inputs) others.emplace_back(watch(input), int64_t(input.storage().nbytes()));
  setting.site->layer->forward(call, inputs);
  inputs.clear();
  at::Tensor output_gradient = call.make_output_gradient();
  others.emplace_back(watch(output_gradient), int64_t(output_gradient.storage().nbytes()));
  const int64_t forwarded = held(device);
  reset_memory_peak(device);
  call.defer_parameters = true;
  int64_t given = 0;
  for (int64_t bytes : gradient_bytes(setting.site->layer->backward(call, output_gradient), output_gradient))
    given += bytes;
  call.defer_parameters = false;
  memory.input_workspace = std::max<int64_t>(0, memory_use(device).peak - forwarded - given);
  output_gradient.reset();
  memory.defers_gradient = !others.back().first.expired();
  int64_t kept = held(device) - before - call.next_state_bytes();
  for (const auto& [storage, bytes] : others)
    if (!storage.expired()) kept -= bytes;
  memory.deferred = std::max<int64_t>(0, kept);
  const int64_t between = held(device);
  reset_memory_peak(device);
  setting.site->layer->backward_parameters(call);
  memory.weight_workspace = memory_use(device).peak - between;
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
  // States belong to the next step, scratch memory to the worker.
  const int64_t scratch = call.scratch().defined() ? int64_t(call.scratch().storage().nbytes()) : 0;
  memory.saved = std::max<int64_t>(0, after - memory.output - call.next_state_bytes() - scratch);
  inputs.clear();
  output.reset();
  for (const Watch& input : watches) memory.keeps_input.push_back(setting.site->differentiated && !input.expired());
  memory.keeps_output = setting.site->differentiated && memory.output_shares_input < 0 && !output_watch.expired();
  if (!setting.site->differentiated)
    memory.forward_workspace += std::exchange(memory.saved, 0);  // the runtime releases the call at once
  measure_backward(setting, call, device, memory);
  measure_deferred(setting, call, device, memory);
  call.begin();
  return memory;
}

}  // namespace trireme
