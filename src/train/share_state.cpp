#include "train/share_state.h"

#include <ATen/ATen.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/memory.h"
#include "comm/rendezvous/text_messages.h"

namespace trireme {
namespace {

/// One tensor of a state without its values.
struct SharedTensor {
  size_t map = 0;    ///< place in maps_of(), one more for the optimizer's states
  std::string name;  ///< in that map
  size_t index = 0;  ///< among the optimizer's tensors of this name
  int type = 0;      ///< at::ScalarType
  Shape shape;
};

/// Everything that rank 0 tells the other ranks before the values of the tensors.
struct Beginning {
  bool writes_checkpoints = false;
  bool resumes = false;
  int64_t step = 0;
  double seconds = 0;
  bool awaits_evaluation = false;
  decltype(TrainingState::agreement_texts) texts = {};
  decltype(TrainingState::updates) updates = {};
  std::vector<SharedTensor> tensors = {};
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SharedTensor, map, name, index, type, shape)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Beginning, writes_checkpoints, resumes, step, seconds, awaits_evaluation, texts,
                                   updates, tensors)

template <typename State>
auto maps_of(State& state) {
  return std::array{&state.weights, &state.buffers, &state.averaged_buffers, &state.errors,
                    &state.factors, &state.carried, &state.agreement};
}

/// Calls `each` with every tensor of the state and its description.
template <typename State, typename Each>
void for_each_tensor(State& state, Each each) {
  const auto describe = [&](size_t map, const std::string& name, size_t index, auto& tensor) {
    each(SharedTensor{map, name, index, int(tensor.scalar_type()), tensor.sizes().vec()}, tensor);
  };
  const auto maps = maps_of(state);
  for (size_t m = 0; m < maps.size(); ++m)
    for (auto& [name, tensor] : *maps[m]) describe(m, name, 0, tensor);
  for (auto& [name, states] : state.optimizer)
    for (size_t k = 0; k < states.size(); ++k) describe(maps.size(), name, k, states[k]);
}

at::Tensor& tensor_of(TrainingState& state, const SharedTensor& shared) {
  const auto maps = maps_of(state);
  if (shared.map < maps.size()) return (*maps[shared.map])[shared.name];
  std::vector<at::Tensor>& states = state.optimizer[shared.name];
  if (states.size() <= shared.index) states.resize(shared.index + 1);
  return states[shared.index];
}

Beginning beginning_of(const RunOptions& options) {
  Beginning beginning;
  beginning.writes_checkpoints = options.writes_checkpoints;
  beginning.resumes = options.resumed.has_value();
  if (!options.resumed) return beginning;
  const ResumedState& resumed = *options.resumed;
  beginning.step = resumed.step;
  beginning.seconds = resumed.seconds;
  beginning.awaits_evaluation = resumed.awaits_evaluation;
  beginning.texts = resumed.state.agreement_texts;
  beginning.updates = resumed.state.updates;
  for_each_tensor(resumed.state,
                  [&](SharedTensor shared, const at::Tensor&) { beginning.tensors.push_back(std::move(shared)); });
  return beginning;
}

/// A state of the same shapes as rank 0's, without its values.
ResumedState room_for(const Beginning& beginning) {
  ResumedState resumed;
  resumed.step = beginning.step;
  resumed.seconds = beginning.seconds;
  resumed.awaits_evaluation = beginning.awaits_evaluation;
  resumed.state.agreement_texts = beginning.texts;
  resumed.state.updates = beginning.updates;
  for (const SharedTensor& shared : beginning.tensors)
    tensor_of(resumed.state, shared) = at::empty(shared.shape, at::TensorOptions().dtype(at::ScalarType(shared.type)));
  return resumed;
}

}  // namespace

void share_beginning(RunOptions& options) {
  const DeviceScope uncharged(kNoDevice);
  options.process->begin_run();
  Communicator& world = options.process->states();
  std::string text;
  nlohmann::json::to_cbor(beginning_of(options), text);
  const auto beginning = nlohmann::json::from_cbor(broadcast_text(world, text)).get<Beginning>();
  options.writes_checkpoints = beginning.writes_checkpoints;
  if (!beginning.resumes) return;
  if (world.rank() != 0) options.resumed = room_for(beginning);
  for_each_tensor(options.resumed->state, [&](const SharedTensor&, at::Tensor& tensor) {
    tensor = tensor.contiguous();
    if (tensor.numel() > 0) world.broadcast(tensor, 0);
  });
}

}  // namespace trireme
