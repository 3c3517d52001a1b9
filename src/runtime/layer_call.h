// The runtime's implementation of LayerCall: the parameters, gradients, state and groups of a layer on this worker.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "program/program.h"
#include "runtime/replicas/replicas.h"
#include "trireme/layer.h"

namespace trireme {

class DeferredNumbers;

/// Caches a view into a flat tensor. The view is recreated only when the flat tensor changes. Keeps the memory of the
/// flat tensor alive until drop().
class CachedView {
 public:
  const at::Tensor& of(const at::Tensor& flat, const ParameterShard& shard);
  void drop() { flat_ = view_ = at::Tensor(); }

 private:
  at::Tensor flat_, view_;
};

/// The location of one parameter of a layer on this worker.
struct ParameterBinding {
  BucketId bucket = -1;
  int shard = -1;
  bool contributes = false;       ///< true if this worker adds to the gradient
  bool by_rows = false;           ///< a table whose rows are tracked (Replicas::track_rows)
  std::vector<CachedView> views;  ///< of the weights, by version slot
  CachedView gradient;
};

/// For a layer that reads a table by rows: the index of the input that holds the row numbers, and the index of the
/// parameter that is the table.
constexpr size_t kRows = 0, kTable = 0;

/// One layer on one worker. Lives as long as the worker.
struct OpBinding {
  const Op* op = nullptr;
  std::vector<ParameterBinding> parameters;
  std::vector<at::Tensor> buffers;
  at::Tensor scratch;
  std::vector<bool> input_gradient_wanted;
  Communicator* data_group = nullptr;
  Communicator* tensor_group = nullptr;
  int tensor_index = 0;

  bool reads_rows() const { return parameters.size() > kTable && parameters[kTable].by_rows; }
};

/// Data shared by all calls of one worker.
struct CallContext {
  const Program* program = nullptr;
  Replicas* replicas = nullptr;
  std::map<std::string, double>* metrics = nullptr;
  DeferredNumbers* numbers = nullptr;
  bool* reads_step = nullptr;  ///< set where a step cannot be replayed: what the host reported is not on the device
};

class RuntimeLayerCall final : public LayerCall {
 public:
  /// `version`: the version of the weights that the call uses.
  RuntimeLayerCall(OpBinding& binding, const CallContext& context, int64_t version)
      : binding_(&binding), context_(&context), version_(version) {}

  const at::Tensor& parameter(int index) override;
  at::Tensor& buffer(int index) override { return binding_->buffers[size_t(index)]; }
  at::Tensor& scratch() override { return binding_->scratch; }
  bool wants_gradient(int index) override { return binding_->parameters[size_t(index)].contributes; }
  void add_gradient(int index, const at::Tensor& gradient) override;
  GradientTarget gradient_target(int index) override;
  bool wants_input_gradient(int index) override { return binding_->input_gradient_wanted[size_t(index)]; }
  const at::Tensor& state(int index) override { return states.at(size_t(index)); }
  void set_state(int index, const at::Tensor& next) override { next_states.at(size_t(index)) = next; }
  Communicator& data_group() override { return *binding_->data_group; }
  Communicator& tensor_group() override { return *binding_->tensor_group; }
  void report(std::string_view metric, double value) override;
  void report(std::string_view metric, const at::Tensor& value) override;

  std::vector<at::Tensor> states, next_states;  ///< before and after this call
  at::Tensor rows;                              ///< rows that the call reads from a table whose rows are tracked

 private:
  bool counts_metrics() const;

  OpBinding* binding_;
  const CallContext* context_;
  int64_t version_;
};

}  // namespace trireme
