// Internals of interpret(), split over interpreter.cpp (calls and control flow), record.cpp (operators),
// record_in_place.cpp (views and writes to them) and record_bags.cpp (embedding bags).
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/import/tape.h"

namespace trireme::torchscript {

inline Argument constant(c10::IValue value) {
  Argument argument;
  argument.constant = std::move(value);
  return argument;
}

class Interpreter {
 public:
  Interpreter(const ScriptFile& file, Paths& paths, bool training);

  Tape run(const at::Tensor& data);

 private:
  using Node = torch::jit::Node;
  using Block = torch::jit::Block;
  using IValue = c10::IValue;

  /// A call of a method or function.
  struct Frame {
    std::string module;
    int path = 0;
    std::unordered_map<const torch::jit::Value*, IValue> values;
  };

  // interpreter.cpp
  std::vector<IValue> call(const torch::jit::Graph& graph, std::vector<IValue> arguments, std::string module, int path);
  void run_block(Frame& frame, const Block& block);
  std::vector<IValue> outputs_of(Frame& frame, const Block& block);
  void run_node(Frame& frame, Node* node);
  bool run_structure(Frame& frame, Node* node);
  void run_if(Frame& frame, Node* node);
  void run_loop(Frame& frame, Node* node);
  void run_call(Frame& frame, Node* node);
  bool build_container(Frame& frame, Node* node);
  bool take_apart(Frame& frame, Node* node);
  const IValue& get(Frame& frame, const torch::jit::Value* value);
  std::vector<IValue> inputs_of(Frame& frame, Node* node);
  void set(Frame& frame, Node* node, std::vector<IValue> outputs);
  bool condition(Node* node, const IValue& value);
  const std::vector<const torch::jit::Value*>& last_read_by(const Node* node, const Block& block);
  ValueId main_output(const IValue& returned);
  [[noreturn]] void fail(const Node* node, std::string why, std::string next = "") const;

  // record.cpp
  void run_operator(Frame& frame, Node* node);
  bool answers_about_mode(Frame& frame, Node* node, const std::vector<IValue>& inputs);
  void evaluate(const Frame& frame, const c10::FunctionSchema& schema, std::vector<IValue>& inputs);
  void note_dropout(const Frame& frame, const c10::FunctionSchema& schema, const std::vector<IValue>& inputs);
  void execute(Node* node, torch::jit::Stack& stack);
  Operator describe(const Frame& frame, Node* node, const c10::FunctionSchema& schema,
                    const std::vector<IValue>& inputs);
  void note_state(Node* node, const c10::FunctionSchema& schema, const std::vector<IValue>& inputs);
  void check_state() const;
  bool is_stale(const at::Tensor& tensor) const;
  void check_readable(const Node* node, const at::Tensor& tensor);
  Argument to_argument(Node* node, const IValue& value);
  Argument capture(const at::Tensor& tensor);
  bool mentions_value(const IValue& value) const;
  ValueId add_value(const at::Tensor& tensor, Value value);
  const Value* value_of(const at::Tensor& tensor) const;
  void add_results(Operator op, const std::vector<IValue>& outputs);
  Argument emit(const Frame& frame, Node* node, const char* name, const char* overload, std::vector<Argument> arguments,
                const at::Tensor& result);

  // record_in_place.cpp
  void run_in_place(Frame& frame, Node* node, Operator op, const c10::FunctionSchema& schema,
                    const std::vector<IValue>& inputs);
  void make_functional(Node* node, Operator& op, const c10::FunctionSchema& schema, const at::Tensor& target);
  void note_view(const Frame& frame, Node* node, const c10::FunctionSchema& schema, const std::vector<IValue>& inputs,
                 const torch::jit::Stack& outputs);
  bool take_view_anew(const at::Tensor& tensor);
  at::Tensor root_of(at::Tensor tensor) const;
  std::vector<Argument> bases_of(Node* node, at::Tensor tensor);
  Argument overwrite(const Frame& frame, Node* node, const Operator& op, const at::Tensor& target,
                     const IValue& source);
  void write_back(const Frame& frame, Node* node, at::Tensor tensor, const std::vector<Argument>& bases,
                  Argument written);
  Argument argument_of(const at::Tensor& tensor);

  // record_bags.cpp
  void run_bags(Frame& frame, Node* node, const std::vector<IValue>& inputs);
  Argument bags_of(const Frame& frame, Node* node, const Argument& flat, const at::Tensor& indices);

  // A weak reference: as long as it exists, no other tensor can have that address.
  using HoldsAddress = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  struct Known {
    HoldsAddress holds_address;
    ValueId value;
    uint32_t version;
  };
  void know(const at::Tensor& tensor, ValueId id);

  /// A tensor that shares the memory of another tensor.
  struct View {
    HoldsAddress holds_address;
    at::Tensor base;
    Operator op;  ///< the operator that makes the view from the base, its first argument
  };

  const ScriptFile& file_;
  Paths& paths_;
  const bool training_;
  torch::jit::Module module_;
  /// Names by the address of a tensor (parameters and buffers) or of a module object; "" for the module itself.
  using Names = std::unordered_map<const void*, std::string>;
  static Names tensor_names(const torch::jit::Module& module);
  static Names module_names(const torch::jit::Module& module);
  const Names modules_, attributes_;
  int64_t samples_ = 0;
  Tape tape_;
  std::unordered_map<const void*, Known> known_;
  /// Copies of constant tensors, by the tensor's address. `original` is retained so that no other tensor gets that
  /// address.
  struct Captured {
    at::Tensor original, copy;
    uint32_t version = 0;
  };
  std::unordered_map<const void*, Captured> captured_;
  std::unordered_map<const void*, View> views_;
  // Storages into which data or random numbers were written: into a part of them, or after they had begun as constants.
  std::unordered_map<const void*, c10::Storage> overwritten_;
  std::map<std::string, const Node*> changed_, read_;  // buffers, with the first node that does so
  std::unordered_map<const Node*, std::vector<const torch::jit::Value*>> last_reads_;
  std::set<const Block*> counted_;
};

}  // namespace trireme::torchscript
