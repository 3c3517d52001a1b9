// A model under construction: the operators of a graph, and the layers that have been found for them so far.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "model/import/form.h"
#include "model/import/graph.h"
#include "model/import/script_file.h"
#include "trireme/layer.h"
#include "trireme/layers/size2d.h"

namespace trireme::torchscript {

/// A layer and the operators that it stands for. It is placed where the last of them stands, which gives its output.
struct Item {
  std::shared_ptr<const Layer> layer;
  std::vector<ValueId> inputs;
  ValueId output = -1;
  std::vector<int> operators;
};

class Draft {
 public:
  Draft(const ScriptFile& file, Graph graph);

  const ScriptFile& file;
  const Graph graph;
  std::vector<Item> items;

  const Operator& op(int index) const { return graph.operators[size_t(index)]; }
  const Value& value(ValueId id) const { return graph.value(id); }

  /// Nothing where a value cannot go from layer to layer: integers that are not the model's input, tensors without a
  /// batch dim.
  const std::optional<Form>& form(ValueId id) const { return forms_[size_t(id)]; }
  /// Of an argument that is such a value.
  const Form* form(const Argument* argument) const;
  /// Operators that read a value (each once), in order. The model's output is read by the loss too.
  const std::vector<int>& readers(ValueId id) const { return readers_[size_t(id)]; }
  /// The one operator that reads a value; nothing where there are several, or it is the output.
  std::optional<int> only_reader(ValueId id) const;

  bool is_covered(int index) const { return covered_[size_t(index)]; }
  void cover(int index) { covered_[size_t(index)] = true; }
  /// A layer for some operators; the last one gives its output.
  void add(Item item);
  /// A value that the graph does not have, for layers that stand for one operator together.
  ValueId new_value();
  /// `id` is, as a layer's tensor, what `of` is: nothing has to be computed for it.
  void alias(ValueId id, ValueId of) { aliases_[size_t(id)] = of; }
  ValueId resolve(ValueId id) const;

  /// Linear layers whose output is to come in parts, [positions, parts, features]: attention's queries, keys and
  /// values.
  void ask_for_parts(ValueId id, int64_t parts) { parts_[id] = parts; }
  int64_t parts_of(ValueId id) const { return parts_.contains(id) ? parts_.at(id) : 0; }

  /// A parameter that an argument is; nullptr where it is something else.
  const Value* parameter(const Argument* argument) const;
  /// The module to which `<module>.weight` and, where it is given, `<module>.bias` belong, when no layer is called so
  /// yet; "" without.
  std::string module_of(const Argument* weight, const Argument* bias) const;
  /// A name that no layer has: the module's where that has neither modules nor parameters in it, else
  /// "<module>.<what>", numbered if need be.
  std::string new_name(const Operator& op, const std::string& what);
  std::string new_name(const std::string& wanted);
  bool is_taken(const std::string& name) const { return names_.contains(name); }

 private:
  std::vector<std::optional<Form>> forms_;
  std::vector<std::vector<int>> readers_;
  std::vector<bool> covered_;
  std::vector<ValueId> aliases_;
  std::map<ValueId, int64_t> parts_;
  std::set<std::string> names_;
};

/// Constants among arguments; the fall-back where the argument is missing or None. Nothing where it is no constant.
std::optional<int64_t> int_argument(const Operator& op, std::string_view name);
std::optional<double> number_argument(const Operator& op, std::string_view name);
bool flag_argument(const Operator& op, std::string_view name);
/// A pair, or one number for both.
std::optional<Size2d> size_argument(const Operator& op, std::string_view name);
/// "relu" of "aten::relu".
std::string short_name(const Operator& op);

/// What a value is as TorchScript's tensor, from random numbers in its layer's tensor, after some operators, in
/// float64: to see what operators do together. Dropout passes. `tensors` holds what they read; returns false where one
/// of them fails.
bool run_operators(const Draft& draft, const std::vector<int>& operators, std::map<ValueId, at::Tensor>& tensors);

/// Whether an operator is a product with a parameter (and a bias), as recognise_linear takes it.
bool is_linear(const Draft& draft, int index);

// Each looks at one operator, and with it at those around it, and adds a layer where it knows one. False: it does not.
bool recognise_attention(Draft& draft,
                         int index);  // first: it stands for many operators, which others would take one by one
bool recognise_convolution(Draft& draft, int index);
bool recognise_pool(Draft& draft, int index);
bool recognise_norm(Draft& draft, int index);
bool recognise_linear(Draft& draft, int index);
bool recognise_activation(Draft& draft, int index);
bool recognise_elementwise(Draft& draft, int index);
bool recognise_dropout(Draft& draft, int index);
bool recognise_embedding(Draft& draft, int index);
bool recognise_lstm(Draft& draft, int index);
bool recognise_rearrangement(Draft& draft, int index);
bool recognise_part(Draft& draft, int index);

/// Layers of TorchScript operators (script_layer.h) for all operators that are not covered yet. User errors name an
/// operator that cannot be in one: batch norm that changes buffers, dropout, values that cannot go from layer to layer.
void add_script_layers(Draft& draft);

}  // namespace trireme::torchscript
