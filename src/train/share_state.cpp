#include "train/share_state.h"

#include <ATen/ATen.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/memory.h"
#include "comm/rendezvous/text_messages.h"

namespace trireme {
namespace {

using nlohmann::json;

/// Calls `each` with a path to every tensor of the state: index of its map, its name there, its index among several.
template <typename State, typename Each>
void for_each_tensor(State& state, Each each) {
  const std::array maps{&state.weights, &state.buffers, &state.averaged_buffers, &state.carried, &state.agreement};
  for (size_t m = 0; m < maps.size(); ++m)
    for (auto& [name, tensor] : *maps[m]) each(json{m, name, 0}, tensor);
  for (auto& [name, states] : state.optimizer)
    for (size_t k = 0; k < states.size(); ++k) each(json{maps.size(), name, k}, states[k]);
}

at::Tensor& tensor_at(TrainingState& state, const json& path) {
  const std::array maps{&state.weights, &state.buffers, &state.averaged_buffers, &state.carried, &state.agreement};
  const auto map = path.at(0).get<size_t>(), k = path.at(2).get<size_t>();
  const auto name = path.at(1).get<std::string>();
  if (map < maps.size()) return (*maps[map])[name];
  std::vector<at::Tensor>& states = state.optimizer[name];
  if (states.size() <= k) states.resize(k + 1);
  return states[k];
}

/// Describes everything except the values.
json described(const ResumedState& resumed) {
  json tensors = json::array();
  for_each_tensor(resumed.state, [&](json path, const at::Tensor& tensor) {
    tensors.push_back({std::move(path), int(tensor.scalar_type()), tensor.sizes().vec()});
  });
  return {{"step", resumed.step},
          {"seconds", resumed.seconds},
          {"texts", resumed.state.agreement_texts},
          {"awaits_evaluation", resumed.awaits_evaluation},
          {"updates", resumed.state.updates},
          {"tensors", std::move(tensors)}};
}

ResumedState room_for(const json& described) {
  ResumedState resumed;
  described.at("step").get_to(resumed.step);
  described.at("seconds").get_to(resumed.seconds);
  described.at("texts").get_to(resumed.state.agreement_texts);
  described.at("awaits_evaluation").get_to(resumed.awaits_evaluation);
  described.at("updates").get_to(resumed.state.updates);
  for (const json& entry : described.at("tensors"))
    tensor_at(resumed.state, entry.at(0)) =
        at::empty(entry.at(2).get<Shape>(), at::TensorOptions().dtype(at::ScalarType(entry.at(1).get<int>())));
  return resumed;
}

}  // namespace

void share_beginning(RunOptions& options) {
  const DeviceScope uncharged(kNoDevice);
  Communicator& world = options.process->states();
  json beginning{{"writes_checkpoints", options.writes_checkpoints}, {"resumed", json()}};
  if (options.resumed) beginning["resumed"] = described(*options.resumed);
  std::string text;
  json::to_cbor(beginning, text);
  beginning = json::from_cbor(broadcast_text(world, text));
  beginning.at("writes_checkpoints").get_to(options.writes_checkpoints);
  if (beginning.at("resumed").is_null()) return;
  if (world.rank() != 0) options.resumed = room_for(beginning.at("resumed"));
  for_each_tensor(options.resumed->state, [&](const json&, at::Tensor& tensor) {
    tensor = tensor.contiguous();
    if (tensor.numel() > 0) world.broadcast(tensor, 0);
  });
}

}  // namespace trireme
