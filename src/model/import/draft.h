// A model under construction: the operators of a graph, and the layers that have been recognised so far.
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

/// A layer and the operators that it replaces. Its place in the model is that of its last operator, whose result is the
/// layer's output.
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

  /// nullopt if the value cannot pass between layers: integers other than the model's input, tensors without a batch
  /// dim.
  const std::optional<Form>& form(ValueId id) const { return forms_[size_t(id)]; }
  /// The form of an argument that is such a value.
  const Form* form(const Argument* argument) const;
  /// Operators that read a value (each once), in order. The loss, which reads the model's output, is not among them.
  const std::vector<int>& readers(ValueId id) const { return readers_[size_t(id)]; }
  /// The only operator that reads a value; nullopt if several do, or if the value is the output.
  std::optional<int> only_reader(ValueId id) const;

  bool is_covered(int index) const { return covered_[size_t(index)]; }
  void cover(int index) { covered_[size_t(index)] = true; }
  /// Adds a layer for some operators. The result of the last operator is its output.
  void add(Item item);
  /// Creates a value that the graph does not have, between several layers that together replace one operator.
  ValueId new_value();
  /// Declares that value `id`, as a layer's tensor, equals value `of`: no layer is needed for it.
  void alias(ValueId id, ValueId of) { aliases_[size_t(id)] = of; }
  ValueId resolve(ValueId id) const;

  /// Requests that the linear layer with result `id` returns its output in parts, [positions, parts, features]:
  /// attention's queries, keys and values.
  void ask_for_parts(ValueId id, int64_t parts) { parts_[id] = parts; }
  int64_t parts_of(ValueId id) const { return parts_.contains(id) ? parts_.at(id) : 0; }

  /// The parameter that an argument is; nullptr if it is not a parameter.
  const Value* parameter(const Argument* argument) const;
  /// The module that owns `<module>.weight` and, if given, `<module>.bias`, if no layer has its name yet; else "".
  std::string module_of(const Argument* weight, const Argument* bias) const;
  /// Returns a name that no layer has: the module's name if that module has no submodules and no parameters, else
  /// "<module>.<what>", with a number if necessary.
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

/// Constant arguments. nullopt if the argument is missing, None or not a constant.
std::optional<int64_t> int_argument(const Operator& op, std::string_view name);
std::optional<double> number_argument(const Operator& op, std::string_view name);
bool flag_argument(const Operator& op, std::string_view name);
/// A pair, or one number for both dims.
std::optional<Size2d> size_argument(const Operator& op, std::string_view name);
/// "relu" for "aten::relu".
std::string short_name(const Operator& op);

/// Runs some operators in float64, to find out what they compute together. `tensors` holds the values that they read,
/// as TorchScript's tensors, and receives their results. Dropout is the identity. Returns false if an operator fails.
bool run_operators(const Draft& draft, const std::vector<int>& operators, std::map<ValueId, at::Tensor>& tensors);

/// True if an operator is a product with a parameter (and a bias) that recognise_linear accepts.
bool is_linear(const Draft& draft, int index);

// Each of these examines one operator and those around it, and adds a layer if it recognises one. Returns false if not.
bool recognise_attention(Draft& draft,
                         int index);  // runs first: it covers many operators that other functions would take one by one
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

/// Adds layers of TorchScript operators (script_layer.h) for all operators that are not covered yet. Throws a user
/// error that names an operator which cannot be in such a layer: batch norm that changes buffers, dropout, values that
/// cannot pass between layers.
void add_script_layers(Draft& draft);

}  // namespace trireme::torchscript
