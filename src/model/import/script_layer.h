// ScriptLayer: operators of a TorchScript graph as one layer, run by libtorch's own kernels, differentiated by its
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

/// A tensor that goes into or out of a ScriptLayer, by its value in the graph.
struct Port {
  ValueId value = -1;
  Form form;
};

/// What a ScriptLayer does: a stretch of a graph with one result.
struct Script {
  std::vector<Operator> operators;  ///< in order; arguments name values of `values`
  std::map<ValueId, Value> values;  ///< of all that the operators read and give
  std::vector<Port> inputs;
  std::vector<ParameterSpec> parameters;
  std::vector<ValueId> parameter_values;
  Port output;
  at::ScalarType dtype = at::kFloat;  ///< of the file's numbers; constants of it follow the run's precision
  std::string
      opaque_because;  ///< the operator that has no rule for splitting, and where it stands; "" where all have one
};

/// Split along every dim of its output for which all its operators have a rule (split_rules.h): "channels", "height",
/// "sequence", ... Inputs and parameters of which a worker needs a part only are placed so, others are whole with
/// gradients that are sums over workers. Any thread; computes the same whenever it is called, so it may hold no
/// dropout.
class ScriptLayer : public AutogradLayer {
 public:
  /// `kind`: of a single operator its name ("mul"), else "script".
  ScriptLayer(std::string name, std::string kind, Script script);

  std::string_view kind() const override { return kind_; }
  std::vector<ParameterSpec> parameters() const override { return script_.parameters; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  /// Of an embedding's indices: its rows.
  std::optional<int64_t> integers_below(std::span<const Shape> inputs, size_t index) const override;
  bool ends_block() const override { return kind_.find("pool") != std::string::npos; }
  double forward_flops(std::span<const Shape> inputs) const override;

  const std::vector<Port>& inputs() const { return script_.inputs; }
  bool is_opaque() const { return !script_.opaque_because.empty(); }
  const std::string& opaque_because() const { return script_.opaque_because; }
  /// The operator with the most work, the last of equals.
  const Operator& heaviest() const;
  /// Position of the first operator for which there is no rule that splits it; -1 where each can be split somehow.
  int unsplit() const;

 protected:
  at::Tensor compute(LayerCall& call, std::span<const at::Tensor> inputs,
                     std::span<const at::Tensor> parameters) const override;

 private:
  /// What a worker needs of every tensor under an option: the dim along which it is cut, or kWhole.
  struct Parts {
    std::map<ValueId, int> of_values;
    std::vector<std::vector<int>> of_arguments;  ///< by operator, as tensors_of lists them
    int degree = 1, index = 0;
  };

  double flops_of(const Operator& op) const;
  Extent extent_of(ValueId id) const;
  Extent extent_of(const Argument& argument) const;
  std::vector<Extent> arguments_of(const Operator& op) const;
  /// Works back from a part of the output to parts of everything; nothing where some operator cannot, or two disagree.
  std::optional<Parts> parts_for(int layer_dim, int degree) const;
  bool demand(Parts& parts, const Argument& argument, int dim) const;
  std::optional<ShardingOption> option_for(ShardingOption like, int degree) const;
  Parts parts_of(const LayerCall& call) const;
  /// A port's extents as a worker holds them.
  Shape local_extents(const Port& port, const Parts& parts) const;
  Shape local_sizes(ValueId id, const Parts& parts, int64_t samples) const;
  class Run;

  std::string kind_;
  Script script_;
};

}  // namespace trireme::torchscript
