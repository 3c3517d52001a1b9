// Recognises PyTorch's nn.LSTM: stacked layers, in one direction or both, starting from zeros.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "model/import/draft.h"
#include "trireme/layers/concat.h"
#include "trireme/layers/dropout.h"
#include "trireme/layers/lstm.h"

namespace trireme::torchscript {
namespace {

constexpr int kParametersOfLayer = 4;
constexpr int kFeatures = 2;  // dim of a layer's tensor

bool is_zero(const Argument& argument) {
  if (argument.items.empty()) return argument.is_tensor() && argument.constant.toTensor().eq(0).all().item<bool>();
  for (const Argument& item : argument.items)
    if (!is_zero(item)) return false;
  return true;
}

/// Returns the module that owns these parameters: "<module>.weight_ih_l0", ... in the order of layers and directions.
std::string module_of(const Draft& draft, const Argument& parameters, int64_t layers, int directions) {
  constexpr std::string_view kFirst = ".weight_ih_l0";
  if (int64_t(parameters.items.size()) != layers * directions * kParametersOfLayer) return "";
  const Value* first = draft.parameter(&parameters.items[0]);
  if (first == nullptr || !first->name.ends_with(kFirst)) return "";
  const std::string module = first->name.substr(0, first->name.size() - kFirst.size());
  size_t at = 0;
  for (int64_t layer = 0; layer < layers; ++layer)
    for (int direction = 0; direction < directions; ++direction)
      for (const char* part : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}) {
        const Value* parameter = draft.parameter(&parameters.items[at++]);
        if (parameter == nullptr ||
            parameter->name != fmt::format("{}.{}_l{}{}", module, part, layer, direction ? "_reverse" : ""))
          return "";
      }
  return module;
}

class Layers {
 public:
  Layers(Draft& draft, int index, std::string module) : draft_(draft), index_(index), module_(std::move(module)) {}

  ValueId add(std::shared_ptr<const Layer> layer, std::vector<ValueId> inputs, ValueId output = -1) {
    if (output < 0) output = draft_.new_value();
    draft_.add({std::move(layer), std::move(inputs), output, {index_}});
    return output;
  }

  ValueId lstm(ValueId input, int64_t in, int64_t hidden, int layer, bool reverse, ValueId output = -1) {
    const std::string name = draft_.new_name(fmt::format("{}.l{}{}", module_, layer, reverse ? "_reverse" : ""));
    return add(std::make_shared<const Lstm>(name, in, hidden,
                                            LstmOptions{.module = module_, .index = layer, .reverse = reverse}),
               {input}, output);
  }

  ValueId join(ValueId there, ValueId back, int layer, ValueId output) {
    return add(std::make_shared<const Concat>(draft_.new_name(fmt::format("{}.l{}_both", module_, layer)), kFeatures),
               {there, back}, output);
  }

  ValueId dropout(ValueId input, double chance, int layer) {
    return add(std::make_shared<const Dropout>(draft_.new_name(fmt::format("{}.dropout_l{}", module_, layer)), chance),
               {input});
  }

 private:
  Draft& draft_;
  const int index_;
  const std::string module_;
};

}  // namespace

bool recognise_lstm(Draft& draft, int index) {
  const Operator& op = draft.op(index);
  const Form* input = op.name == "aten::lstm" ? draft.form(op.find("input")) : nullptr;
  const Argument *states = op.find("hx"), *parameters = op.find("params");
  if (input == nullptr || states == nullptr || parameters == nullptr || !flag_argument(op, "has_biases")) return false;
  const bool others_unread = draft.readers(op.results.at(1)).empty() && draft.readers(op.results.at(2)).empty();
  if (input->extents.size() != 2 || input->is_folded || !others_unread || !is_zero(*states)) return false;
  const auto count = int_argument(op, "num_layers");
  const int directions = flag_argument(op, "bidirectional") ? 2 : 1;
  const std::string module = count ? module_of(draft, *parameters, *count, directions) : "";
  if (module.empty()) return false;
  const int64_t hidden = draft.parameter(&parameters->items[1])->sizes[1];
  const double chance = op.training_flag ? number_argument(op, "dropout").value_or(0) : 0;

  Layers layers(draft, index, module);
  ValueId x = op.find("input")->value;
  int64_t in = input->sample.back();
  for (int layer = 0; layer < int(*count); ++layer) {
    const bool last = layer + 1 == int(*count);
    const ValueId output = last ? op.result() : -1;
    if (directions == 1) x = layers.lstm(x, in, hidden, layer, false, output);
    else
      x = layers.join(layers.lstm(x, in, hidden, layer, false), layers.lstm(x, in, hidden, layer, true), layer, output);
    if (!last && chance > 0) x = layers.dropout(x, chance, layer);
    in = hidden * directions;
  }
  return true;
}

}  // namespace trireme::torchscript
