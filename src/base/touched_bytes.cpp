#include "base/touched_bytes.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "trireme/error.h"

namespace trireme {
namespace {

struct OfThread {
  double bytes = 0;
  int depth = 0;       // of operators in progress, which call each other, and of pauses
  bool moves = false;  // the outermost operator in progress moves bytes
  bool exists = false;
};

OfThread& of_thread() {
  thread_local OfThread counted;
  return counted;
}

double bytes_of(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().defined() ? double(value.toTensor().nbytes()) : 0;
  double bytes = 0;
  if (value.isTensorList())
    for (const at::Tensor& tensor : value.toTensorVector()) bytes += tensor.defined() ? double(tensor.nbytes()) : 0;
  return bytes;
}

/// True if the operator returns a view of its input, or memory that it does not write.
bool moves_nothing(const c10::OperatorName& name) {
  if (std::string_view(name.name).starts_with("aten::empty")) return true;
  const auto schema = c10::Dispatcher::singleton().findSchema(name);
  if (!schema) return false;
  const auto& returns = schema->schema().returns();
  return std::any_of(returns.begin(), returns.end(), [](const c10::Argument& result) {
    return result.alias_info() && !result.alias_info()->isWrite();
  });
}

std::unique_ptr<at::ObserverContext> begin_operator(const at::RecordFunction& call) {
  OfThread& counted = of_thread();
  if (counted.depth++ > 0) return nullptr;
  const auto name = call.operator_name();
  counted.moves = name && !moves_nothing(*name);
  if (!counted.moves) return nullptr;
  for (const c10::IValue& input : call.inputs()) counted.bytes += bytes_of(input);
  return nullptr;
}

void end_operator(const at::RecordFunction& call, at::ObserverContext*) {
  OfThread& counted = of_thread();
  if (--counted.depth > 0 || !counted.moves) return;
  for (const c10::IValue& output : call.outputs()) counted.bytes += bytes_of(output);
}

}  // namespace

TouchedBytes::TouchedBytes()
    : callback_(at::addThreadLocalCallback(at::RecordFunctionCallback(begin_operator, end_operator)
                                               .needsInputs(true)
                                               .needsOutputs(true)
                                               .scopes({at::RecordScope::FUNCTION}))) {
  check_internal(!of_thread().exists, "a thread has one count of touched bytes");
  of_thread() = {.exists = true};
}

TouchedBytes::~TouchedBytes() {
  at::removeCallback(callback_);
  of_thread() = {};
}

double TouchedBytes::take() { return std::exchange(of_thread().bytes, 0.0); }

TouchedBytes::Paused::Paused() { ++of_thread().depth; }
TouchedBytes::Paused::~Paused() { --of_thread().depth; }

}  // namespace trireme
