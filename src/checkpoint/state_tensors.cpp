#include "checkpoint/state_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace trireme {
namespace {

constexpr std::string_view kOptimizer = "optimizer/", kAverage = "average/", kError = "error/", kFactor = "factor/",
                           kCarried = "carried/";

}  // namespace

TensorMap state_tensors(const TrainingState& state) {
  TensorMap tensors;
  for (const auto& [name, states] : state.optimizer)
    for (size_t k = 0; k < states.size(); ++k) tensors[fmt::format("{}{}/{}", kOptimizer, k, name)] = states[k];
  const auto add = [&](std::string_view kind, const TensorMap& of_kind) {
    for (const auto& [name, tensor] : of_kind) tensors[fmt::format("{}{}", kind, name)] = tensor;
  };
  add(kAverage, state.averaged_buffers);
  add(kError, state.errors);
  add(kFactor, state.factors);
  add(kCarried, state.carried);
  return tensors;
}

bool put_state_tensor(const std::string& name, at::Tensor tensor, TrainingState& state) {
  const std::string_view text = name;
  if (text.starts_with(kAverage)) {
    state.averaged_buffers[name.substr(kAverage.size())] = std::move(tensor);
  } else if (text.starts_with(kError)) {
    state.errors[name.substr(kError.size())] = std::move(tensor);
  } else if (text.starts_with(kFactor)) {
    state.factors[name.substr(kFactor.size())] = std::move(tensor);
  } else if (text.starts_with(kCarried)) {
    state.carried[name.substr(kCarried.size())] = std::move(tensor);
  } else {
    const size_t digit = kOptimizer.size(), slash = digit + 1;  // one digit: no optimizer has ten tensors
    const bool known = text.starts_with(kOptimizer) && text.size() > slash && text[digit] >= '0' &&
                       text[digit] <= '9' && text[slash] == '/';
    if (!known) return false;
    std::vector<at::Tensor>& states = state.optimizer[name.substr(slash + 1)];
    states.resize(std::max(states.size(), size_t(text[digit] - '0') + 1));
    states[size_t(text[digit] - '0')] = std::move(tensor);
  }
  return true;
}

}  // namespace trireme
