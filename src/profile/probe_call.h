// One layer under one sharding option, by itself on one thread: no program, no other workers, made-up values.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "profile/layer_site.h"
#include "trireme/layer_facts.h"

namespace trireme {

/// What to measure: worker 0 of a tensor axis of `tensor` with `samples` samples.
struct ProbeSetting {
  const LayerSite* site = nullptr;
  ShardingOption option;
  int tensor = 1;
  int64_t samples = 1;
  SiteOptions sites;  ///< the LayerSites' own
};

/// The layer's side of it: shards of parameters, buffers and states as the option places them, of the runtime's dtypes
/// and memory formats, with drawn values; groups that say nothing. Used by one thread under c10::InferenceMode, which a
/// worker runs under too.
class ProbeCall final : public LayerCall {
 public:
  explicit ProbeCall(const ProbeSetting& setting);

  const at::Tensor& parameter(int index) override { return parameters_.at(size_t(index)); }
  at::Tensor& buffer(int index) override { return buffers_.at(size_t(index)); }
  at::Tensor& scratch() override { return scratch_; }
  bool wants_gradient(int index) override { return setting_.site->wants_parameters[size_t(index)]; }
  void add_gradient(int index, const at::Tensor& gradient) override;
  /// The first contribution of a step: written, not added to.
  GradientTarget gradient_target(int index) override;
  bool wants_input_gradient(int index) override { return setting_.site->wants_inputs[size_t(index)]; }
  const at::Tensor& state(int index) override { return states_.at(size_t(index)); }
  void set_state(int index, const at::Tensor& next) override { next_states_.at(size_t(index)) = next; }
  Communicator& data_group() override { return *data_group_; }
  Communicator& tensor_group() override { return *tensor_group_; }
  void report(std::string_view, double) override {}

  /// Called once, when the next gradient of a parameter is added to.
  void on_parameter_gradient(std::function<void()> callback) { on_parameter_gradient_ = std::move(callback); }

  /// Forgets the call before, as the next step of a run does.
  void begin();
  /// New tensors, as the layers before would have left them.
  std::vector<at::Tensor> make_inputs() const;
  /// As the layers after would have left it: in the layout in which a Partial output's is whole.
  at::Tensor make_output_gradient() const;
  /// Bytes of states for the next step, which live on but are no activations.
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

/// The output for one sample, alone: for what its type says.
at::Tensor show_output(const LayerSite& site, const SiteOptions& options);

/// Bytes of one call's forward and backward. Needs memory accounting and a DeviceScope of `device`, of which nobody
/// else makes use meanwhile.
LayerMemory measure_memory(const ProbeSetting& setting, ProbeCall& call, int device);

}  // namespace trireme
