#include "profile/probe_call.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>

#include "base/devices/device.h"
#include "base/memory.h"
#include "model/layers/common.h"
#include "profile/noise.h"
#include "profile/silent_communicator.h"
#include "runtime/replicas/flat_shard.h"
#include "runtime/replicas/parameter_store.h"

namespace trireme {
namespace {

constexpr int kTogether = 2;  // size of the data group, if layers communicate over it

int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += tensor.defined() ? int64_t(tensor.storage().nbytes()) : 0;
  return bytes;
}

/// The scale of random parameter values. They need not be the real initial values, but must not all be equal or so
/// large that products overflow.
double deviation_of(const Init& init) {
  switch (init.kind) {
    case Init::Kind::constant: return 0;
    case Init::Kind::uniform: return std::max(init.b, 1e-6) / 2;
    case Init::Kind::normal: return std::max(init.b, 1e-6);
  }
  return 1;
}

}  // namespace

ProbeCall::ProbeCall(const ProbeSetting& setting) : setting_(setting) {
  const SiteOptions& sites = setting_.sites;
  option = &setting_.option;
  tensor_degree = setting_.tensor;
  batch_samples = micro_batch_samples = setting_.samples;
  batch_norm = sites.batch_norm;
  output_box = box_of(setting_.site->output_shape, setting_.option.output, true);
  tensor_group_ = silent_communicator(setting_.tensor);
  const bool communicates = setting_.site->layer->communicates_over_data_axis(sites.batch_norm);
  if (communicates) micro_batch_samples *= kTogether;
  data_group_ = silent_communicator(communicates ? kTogether : 1);
  make_parameters();
  MemoryScope scope(MemoryCategory::buffers);
  const auto buffers = setting_.site->layer->buffers();
  for (size_t i = 0; i < buffers.size(); ++i)
    buffers_.push_back(at::full(shape_of(box_of(buffers[i].shape, setting_.option.buffers[i], false)),
                                buffers[i].initial, on_worker(master_type(sites.precision))));
  const auto states = setting_.site->layer->states();
  for (size_t i = 0; i < states.size(); ++i)
    states_.push_back(at::zeros(shape_of(box_of(states[i].sample_shape, setting_.option.states[i], true)),
                                on_worker(compute_type(sites.precision))));
  next_states_.resize(states_.size());
}

void ProbeCall::make_parameters() {
  const auto specs = setting_.site->layer->parameters();
  const auto master = master_type(setting_.sites.precision);
  for (size_t i = 0; i < specs.size(); ++i) {
    const ParameterShard shard{
        .parameter = int(i), .box = box_of(specs[i].shape, setting_.option.parameters[i], false), .offset = 0};
    const auto type = specs[i].full_precision ? master : compute_type(setting_.sites.precision);
    MemoryScope weights(MemoryCategory::weights);
    at::Tensor values = at::empty({shard.size()}, on_worker(type));
    if (specs[i].init.kind == Init::Kind::constant) values.fill_(specs[i].init.a);
    else fill_with_noise(values, deviation_of(specs[i].init));
    parameters_.push_back(view_of_shard(values, shard));
    MemoryScope scope(MemoryCategory::gradients);
    const bool wanted = setting_.site->wants_parameters[i];
    gradients_.push_back(wanted ? view_of_shard(at::zeros({shard.size()}, on_worker(master)), shard) : at::Tensor());
  }
  written_.assign(specs.size(), false);
}

Box ProbeCall::box_of(const Shape& sample_shape, const Placement& placement, bool has_samples) const {
  Shape shape = sample_shape;
  if (has_samples) shape.insert(shape.begin(), setting_.samples);
  Mesh mesh{.workers = {}, .data = 1, .tensor = setting_.tensor};
  for (int t = 0; t < setting_.tensor; ++t) mesh.workers.push_back(t);
  return Layout{mesh, Placement::replicate(), placement}.box_of(0, shape);
}

LayerCall::GradientTarget ProbeCall::gradient_target(int index) {
  if (on_parameter_gradient_) std::exchange(on_parameter_gradient_, nullptr)();
  const bool adds = written_[size_t(index)];
  written_[size_t(index)] = true;
  return {gradients_[size_t(index)], adds};
}

void ProbeCall::add_gradient(int index, const at::Tensor& gradient) {
  GradientTarget target = gradient_target(index);
  if (target.accumulate) target.tensor.add_(gradient);
  else target.tensor.copy_(gradient);
}

void ProbeCall::begin() {
  saved.clear();
  std::fill(written_.begin(), written_.end(), false);
  next_states_.assign(next_states_.size(), at::Tensor());
}

std::vector<at::Tensor> ProbeCall::make_inputs() const {
  std::vector<at::Tensor> inputs;
  for (size_t i = 0; i < setting_.site->inputs.size(); ++i) {
    const ValueKind& kind = setting_.site->inputs[i];
    const Shape shape = shape_of(box_of(setting_.site->input_shapes[i], setting_.option.inputs[i], true));
    inputs.push_back(empty_in_layout(shape, on_worker(kind.type)));
    fill_with_noise(inputs.back(), 1, kind.below);
  }
  return inputs;
}

at::Tensor ProbeCall::make_output_gradient() const {
  at::Tensor gradient = empty_in_layout(shape_of(output_box), on_worker(setting_.site->output.type));
  if (setting_.site->is_loss) gradient.fill_(1 / double(batch_samples));
  else fill_with_noise(gradient);
  return gradient;
}

int64_t ProbeCall::next_state_bytes() const { return bytes_of(next_states_); }

at::Tensor show_output(const LayerSite& site, const SiteOptions& options) {
  c10::InferenceMode inference;
  ProbeCall call({&site, site.layer->sharding_options(site.input_shapes, 1).at(0), 1, 1, options});
  return site.layer->forward(call, call.make_inputs());
}

}  // namespace trireme
