// Runs one layer under one sharding option on one thread, without a program or other workers, on random values.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "profile/layer_site.h"
#include "trireme/layer.h"

namespace trireme {

/// What to measure: worker 0 of a tensor axis of degree `tensor` with `samples` samples.
struct ProbeSetting {
  const LayerSite* site = nullptr;
  ShardingOption option;
  int tensor = 1;
  int64_t samples = 1;
  SiteOptions sites;  ///< the options of the LayerSites
};

/// The LayerCall of a measurement. It has shards of parameters, buffers and states as the option places them, with the
/// runtime's dtypes and memory formats and with random values. Its groups do not communicate. Used by one thread under
/// c10::InferenceMode, as a worker is.
class ProbeCall final : public LayerCall {
 public:
  explicit ProbeCall(const ProbeSetting& setting);

  const at::Tensor& parameter(int index) override { return parameters_.at(size_t(index)); }
  at::Tensor& buffer(int index) override { return buffers_.at(size_t(index)); }
  at::Tensor& scratch() override { return scratch_; }
  bool wants_gradient(int index) override { return setting_.site->wants_parameters[size_t(index)]; }
  void add_gradient(int index, const at::Tensor& gradient) override;
  /// Returns the target of a step's first contribution: written, not added to.
  GradientTarget gradient_target(int index) override;
  bool wants_input_gradient(int index) override { return setting_.site->wants_inputs[size_t(index)]; }
  const at::Tensor& state(int index) override { return states_.at(size_t(index)); }
  void set_state(int index, const at::Tensor& next) override { next_states_.at(size_t(index)) = next; }
  Communicator& data_group() override { return *data_group_; }
  Communicator& tensor_group() override { return *tensor_group_; }
  void report(std::string_view, double) override {}

  /// `callback` is called once, before the next gradient of a parameter is written.
  void on_parameter_gradient(std::function<void()> callback) { on_parameter_gradient_ = std::move(callback); }

  /// Discards the state of the previous call, as the next step of a run does.
  void begin();
  /// Returns new tensors, as the previous layers would have left them.
  std::vector<at::Tensor> make_inputs() const;
  /// Returns a new gradient, as the next layers would have left it. The gradient of a Partial output is whole.
  at::Tensor make_output_gradient() const;
  /// Bytes of the states for the next step. They remain but are not activations.
  int64_t next_state_bytes() const;

 private:
  Box box_of(const Shape& sample_shape, const Placement& placement, bool has_samples) const;
  void make_parameters();

  const ProbeSetting setting_;
  std::vector<at::Tensor> parameters_, gradients_, buffers_, states_, next_states_;
  std::vector<bool> written_;
  std::function<void()> on_parameter_gradient_;
  at::Tensor scratch_;
  std::unique_ptr<Communicator> data_group_, tensor_group_;
};

/// Runs the layer on one sample, to show the type of its output.
at::Tensor show_output(const LayerSite& site, const SiteOptions& options);

/// Measures the bytes of one call's forward and backward. Requires memory accounting and a DeviceScope of `device`,
/// which no other thread may use at the same time.
LayerMemory measure_memory(const ProbeSetting& setting, ProbeCall& call, int device);

}  // namespace trireme
