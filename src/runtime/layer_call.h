// The runtime's side of a layer call: which parameters, gradients and groups a layer sees on this worker.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/layer.h"
#include "program/program.h"

namespace trireme {

/// One layer on one worker: views into the flat buckets and the groups it may talk to. Lives as long as the worker.
struct OpBinding {
  const Op* op = nullptr;
  const Layer* layer = nullptr;
  std::vector<at::Tensor> parameters;       ///< compute dtype
  std::vector<at::Tensor> gradients;        ///< undefined where this worker's gradient does not count
  std::vector<bool*> gradient_written;      ///< whether the view holds a contribution of this step
  std::vector<at::Tensor> buffers;
  std::vector<bool> input_gradient_wanted;
  Communicator* data_group = nullptr;
  Communicator* tensor_group = nullptr;
  int tensor_index = 0;
};

class RuntimeLayerCall final : public LayerCall {
 public:
  RuntimeLayerCall(OpBinding& binding, std::map<std::string, double>& metrics) : binding_(&binding), metrics_(&metrics) {}

  const at::Tensor& parameter(int index) override { return binding_->parameters[size_t(index)]; }
  at::Tensor& buffer(int index) override { return binding_->buffers[size_t(index)]; }
  bool wants_gradient(int index) override { return binding_->gradients[size_t(index)].defined(); }
  void add_gradient(int index, const at::Tensor& gradient) override;
  GradientTarget gradient_target(int index) override;
  bool wants_input_gradient(int index) override { return binding_->input_gradient_wanted[size_t(index)]; }
  Communicator& data_group() override { return *binding_->data_group; }
  Communicator& tensor_group() override { return *binding_->tensor_group; }
  void report(std::string_view metric, double value) override;

 private:
  OpBinding* binding_;
  std::map<std::string, double>* metrics_;
};

}  // namespace trireme
