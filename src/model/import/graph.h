// What a TorchScript module computes, operator by operator, once everything that is known beforehand has been worked
// out: first as the tapes of single runs, then as one graph that holds for training and evaluation and for any number
// of samples.
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

/// An argument of an operator. Numbers, texts and tensors that depend on neither data nor parameters are constants;
/// where they follow the number of samples the graph knows how.
struct Argument {
  enum class Kind {
    constant,
    batch,  ///< `constant`, an int, times the number of samples
    value,
    list,  ///< `items`, at least one of which is no plain constant
  };
  Kind kind = Kind::constant;
  c10::IValue constant;
  int repeat_dim =
      -1;  ///< >= 0: a constant tensor is that of one sample; for n of them it is repeated n times along this dim
  std::string attribute;  ///< the module's buffer that a constant tensor is
  ValueId value = -1;
  std::vector<Argument> items;
  c10::TypePtr item_type;  ///< of a list

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

/// What an argument is for `batch` samples; `look_up(ValueId)` gives values, `adapt(const Argument&)` constant tensors.
c10::IValue instantiate(const Argument& argument, int64_t batch, const std::function<at::Tensor(ValueId)>& look_up,
                        const std::function<at::Tensor(const Argument&)>& adapt);
/// The constant tensor itself, for `batch` samples.
at::Tensor constant_tensor(const Argument& argument, int64_t batch);

/// A tensor that depends on data or parameters.
struct Value {
  enum class Kind { input, parameter, result };
  Kind kind = Kind::result;
  std::string name;   ///< of a parameter
  int producer = -1;  ///< operator, and which of its results
  int result = 0;
  Shape sizes;  ///< in a run with kProbeBatch samples
  at::ScalarType dtype = at::kFloat;
  bool from_data = false;
  bool trained = false;  ///< depends on a parameter

  // of data, once runs with different numbers of samples have been compared
  int batch_dim = -1;  ///< whose length is `fold` times the number of samples, sample by sample; -1: there is none
  int64_t fold = 1;
  bool batch_is_inner =
      false;  ///< of the first dim, [fold, samples] in one: until unfold_inner_batches there is no batch_dim

  bool is_floating() const { return at::isFloatingType(dtype); }
};

/// An operator that was applied to values.
struct Operator {
  std::string name;                         ///< "aten::relu": not one that works in place, unless it is random
  std::vector<std::string> argument_names;  ///< as its schema has them
  std::vector<Argument> arguments;
  std::function<void(torch::jit::Stack&)> run;
  std::vector<ValueId> results;

  const torch::jit::Node* node = nullptr;  ///< lives as long as the file's module
  int path = 0;        ///< of the calls and loop rounds that led to the node: the same number in every run
  std::string module;  ///< whose code it is: "layer1.0.conv1"
  bool is_random = false;
  bool training_flag = true;  ///< what a batch norm, a dropout, ... is told in training; in evaluation it is told so

  /// Position of an argument by its name in the schema; -1 without one.
  int index_of(std::string_view argument) const;
  /// nullptr where there is none of that name, or it is None.
  const Argument* find(std::string_view argument) const;
  ValueId result() const { return results.at(0); }
};

struct Graph {
  std::vector<Value> values;
  std::vector<Operator> operators;  ///< in an order in which they can run
  ValueId output = -1;

  const Value& value(ValueId id) const { return values[size_t(id)]; }
};

/// Samples that the runs are made with: two numbers, so that what follows them can be told from what does not.
constexpr int64_t kProbeBatch = 2, kOtherBatch = 3;

}  // namespace trireme::torchscript
