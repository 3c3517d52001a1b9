// Defaults for the facts and the export that a layer does not state itself (trireme/layer.h).
#include <algorithm>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "trireme/error.h"
#include "trireme/layer.h"

namespace trireme {

LayerMemory Layer::memory(const CallShapes& call) const {
  LayerMemory memory = plain_memory(call);
  memory.keeps_input.assign(call.inputs.size(), true);
  memory.keeps_output = true;
  return memory;
}

std::vector<OperatorWork> Layer::work(const CallShapes& call, double flops, Pass) const {
  // FLOPs per output element; elementwise operators and poolings need fewer
  constexpr double kFlopsPerElementOfProducts = 16;
  const bool multiplies = flops > kFlopsPerElementOfProducts * double(std::max<int64_t>(call.output.count(), 1));
  return one_pass(call, flops, 1, multiplies);
}

LayerExchanges Layer::exchanges(const CallShapes&) const {
  check_internal(false, "a layer that communicates within its calls states what it exchanges");
  return {};
}

void Layer::restore(LayerCall&, std::span<const at::Tensor>) const {
  check_internal(false, "only a layer that says so is restored without computing");
}

std::string Layer::to_onnx(OnnxWriter&) const { fail_export(*this, "ONNX"); }

void Layer::to_script(ScriptWriter&) const { fail_export(*this, "TorchScript"); }

}  // namespace trireme
