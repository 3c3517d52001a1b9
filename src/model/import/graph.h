// The computation of a TorchScript module, operator by operator, after everything that is known in advance has been
// evaluated: first as the tapes of single runs, then as one graph that is valid for training and evaluation and for any
// number of samples.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/placement.h"

namespace torch::jit {
struct Node;
}

namespace trireme::torchscript {

using ValueId = int;

/// An argument of an operator. Numbers, texts and tensors that depend on neither data nor parameters are constants. For
/// constants that depend on the number of samples, the graph stores the rule.
struct Argument {
  enum class Kind {
    constant,
    batch,  ///< `constant`, an int, times the number of samples
    value,
    list,  ///< `items`, at least one of which is not a plain constant
  };
  Kind kind = Kind::constant;
  c10::IValue constant;
  /// >= 0: `constant` is the tensor for one sample; for n samples it is repeated n times along this dim.
  int repeat_dim = -1;
  std::string attribute;  ///< the module's buffer that this constant tensor is
  ValueId value = -1;
  std::vector<Argument> items;
  c10::TypePtr item_type;  ///< element type of a list

  bool is_none() const { return kind == Kind::constant && constant.isNone(); }
  bool is_value() const { return kind == Kind::value; }
  bool is_tensor() const { return kind == Kind::constant && constant.isTensor(); }
};

/// Calls `visit(ValueId)` for every value in an argument.
template <class Visit>
void for_each_value(const Argument& argument, const Visit& visit) {
  if (argument.is_value()) visit(argument.value);
  for (const Argument& item : argument.items) for_each_value(item, visit);
}

/// Returns the argument for `batch` samples. `look_up(ValueId)` returns values, `adapt(const Argument&)` constant
/// tensors.
c10::IValue instantiate(const Argument& argument, int64_t batch, const std::function<at::Tensor(ValueId)>& look_up,
                        const std::function<at::Tensor(const Argument&)>& adapt);
/// Returns the constant tensor, for `batch` samples.
at::Tensor constant_tensor(const Argument& argument, int64_t batch);

/// A tensor that depends on data or parameters.
struct Value {
  enum class Kind { input, parameter, result };
  Kind kind = Kind::result;
  std::string name;   ///< of a parameter
  int producer = -1;  ///< index of the operator; `result` is the index among its results
  int result = 0;
  Shape sizes;  ///< in a run with kProbeBatch samples
  at::ScalarType dtype = at::kFloat;
  bool from_data = false;
  bool trained = false;  ///< true if it depends on a parameter

  // for values that depend on data, known after runs with different numbers of samples have been compared
  /// The dim whose length is `fold` times the number of samples, sample by sample; -1: none.
  int batch_dim = -1;
  int64_t fold = 1;
  /// True if the samples are the inner part of the first dim, [fold, samples] in one dim. Until unfold_inner_batches
  /// has run, such a value has no batch_dim.
  bool batch_is_inner = false;

  bool is_floating() const { return at::isFloatingType(dtype); }
};

/// An operator applied to values.
struct Operator {
  std::string name;                         ///< "aten::relu"; never an in-place variant, unless the operator is random
  std::vector<std::string> argument_names;  ///< as in the operator's schema
  std::vector<Argument> arguments;
  std::function<void(torch::jit::Stack&)> run;
  std::vector<ValueId> results;

  const torch::jit::Node* node = nullptr;  ///< lives as long as the file's module
  int path = 0;        ///< number of the sequence of calls and loop iterations that led to the node; equal in every run
  std::string module;  ///< the module whose code this is: "layer1.0.conv1"
  bool is_random = false;
  /// training argument of a batch norm, dropout, ...: its value in training; it is false in evaluation
  bool training_flag = true;

  /// Position of an argument by its name in the schema; -1 if there is none.
  int index_of(std::string_view argument) const;
  /// nullptr if no argument has that name, or if it is None.
  const Argument* find(std::string_view argument) const;
  ValueId result() const { return results.at(0); }
};

struct Graph {
  std::vector<Value> values;
  std::vector<Operator> operators;  ///< in an order in which they can run
  ValueId output = -1;

  const Value& value(ValueId id) const { return values[size_t(id)]; }
};

/// Numbers of samples of the probe runs. Two numbers, to distinguish sizes that depend on the number of samples from
/// others.
constexpr int64_t kProbeBatch = 2, kOtherBatch = 3;

}  // namespace trireme::torchscript
