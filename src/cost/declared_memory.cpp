#include "cost/declared_memory.h"

#include "cost/declared_kinds.h"

namespace trireme {
namespace {

declared::Declaration declaration_of(std::string_view kind) {
  for (const declared::DeclarationTable* table : {&declared::image_layers(), &declared::sequence_layers(), &declared::losses()})
    if (auto found = table->find(kind); found != table->end()) return found->second;
  return nullptr;
}

/// Of a layer that nothing is known of.
LayerMemory keeps_everything(const CallShapes& call) {
  LayerMemory memory = declared::plain(call);
  memory.keeps_input.assign(call.inputs.size(), true);
  memory.keeps_output = true;
  return memory;
}

}  // namespace

bool declares_memory(std::string_view kind) { return declaration_of(kind) != nullptr; }

LayerMemory declared_memory(const CallShapes& call) {
  const declared::Declaration declaration = declaration_of(call.layer->kind());
  return declaration == nullptr ? keeps_everything(call) : declaration(call);
}

namespace declared {

LayerMemory plain(const CallShapes& call) {
  LayerMemory memory{.output = call.output.bytes(), .keeps_input = std::vector<bool>(call.inputs.size(), false), .input_gradients = {}};
  for (size_t i = 0; i < call.inputs.size(); ++i) memory.input_gradients.push_back(call.wanted[i] ? call.inputs[i].bytes() : 0);
  return memory;
}

LayerMemory renamed(const CallShapes& call, int64_t saved) {
  LayerMemory memory = plain(call);
  memory.output = 0;
  memory.output_shares_input = 0;
  memory.saved = saved;
  memory.input_gradients.assign(call.inputs.size(), 0);
  return memory;
}

}  // namespace declared
}  // namespace trireme
