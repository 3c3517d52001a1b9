// ScriptLayer: operators of a TorchScript graph as one layer, run by libtorch's kernels and differentiated by its
// autograd.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/import/form.h"
#include "model/import/graph.h"
#include "model/import/split_rules.h"
#include "trireme/layers/autograd_layer.h"

namespace trireme::torchscript {

/// A tensor that enters or leaves a ScriptLayer, identified by its value in the graph.
struct Port {
  ValueId value = -1;
  Form form;
};

/// What a ScriptLayer computes: a part of a graph with one result.
struct Script {
  std::vector<Operator> operators;  ///< in order; arguments refer to values of `values`
  std::map<ValueId, Value> values;  ///< all values that the operators read and return
  std::vector<Port> inputs;
  std::vector<ParameterSpec> parameters;
  std::vector<ValueId> parameter_values;
  Port output;
  /// dtype of the file's numbers; constants of this dtype follow the run's precision
  at::ScalarType dtype = at::kFloat;
  /// The operator without a splitting rule, and its place in the source; "" if all operators have one.
  std::string opaque_because;
};

/// Can be split along every dim of its output for which all its operators have a rule (split_rules.h): "channels",
/// "height", "sequence", ... Inputs and parameters of which a worker needs only a part are sharded; the others are
/// whole, with gradients that are sums over workers. Thread-safe. Computes the same in every call, so it must not
/// contain dropout.
class ScriptLayer : public AutogradLayer {
 public:
  /// `kind`: for a single operator its name ("mul"), else "script".
  ScriptLayer(std::string name, std::string kind, Script script);

  std::string_view kind() const override { return kind_; }
  std::vector<ParameterSpec> parameters() const override { return script_.parameters; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  /// For the indices of an embedding: its number of rows.
  std::optional<int64_t> integers_below(std::span<const Shape> inputs, size_t index) const override;
  bool ends_block() const override { return kind_.find("pool") != std::string::npos; }
  double forward_flops(std::span<const Shape> inputs) const override;

  const std::vector<Port>& inputs() const { return script_.inputs; }
  bool is_opaque() const { return !script_.opaque_because.empty(); }
  const std::string& opaque_because() const { return script_.opaque_because; }
  /// The operator with the most work; the last one if several are equal.
  const Operator& heaviest() const;
  /// Position of the first operator that no rule can split; -1 if every operator can be split in some way.
  int unsplit() const;

 protected:
  at::Tensor compute(LayerCall& call, std::span<const at::Tensor> inputs,
                     std::span<const at::Tensor> parameters) const override;

 private:
  /// The part of every tensor that a worker needs under an option: the dim along which it is cut, or kWhole.
  struct Parts {
    std::map<ValueId, int> of_values;
    std::vector<std::vector<int>> of_arguments;  ///< per operator, in the order of tensors_of
    int degree = 1, index = 0;
  };

  double flops_of(const Operator& op) const;
  Extent extent_of(ValueId id) const;
  Extent extent_of(const Argument& argument) const;
  std::vector<Extent> arguments_of(const Operator& op) const;
  /// Derives parts of all tensors backwards from a part of the output. nullopt if an operator cannot be split so, or if
  /// two operators need different parts of one tensor.
  std::optional<Parts> parts_for(int layer_dim, int degree) const;
  bool demand(Parts& parts, const Argument& argument, int dim) const;
  std::optional<ShardingOption> option_for(ShardingOption like, int degree) const;
  Parts parts_of(const LayerCall& call) const;
  /// The extents of a port that this worker holds.
  Shape local_extents(const Port& port, const Parts& parts) const;
  Shape local_sizes(ValueId id, const Parts& parts, int64_t samples) const;
  class Run;

  std::string kind_;
  Script script_;
};

}  // namespace trireme::torchscript
