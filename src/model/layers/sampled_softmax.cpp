#include "trireme/layers/sampled_softmax.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "base/devices/device.h"
#include "base/random.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"
#include "trireme/error.h"

namespace trireme {
namespace {

enum SampledParameter { kSampledWeight, kSampledBias, kSampledParameters };
enum SampledSaved {
  kSampledStates,
  kSampledLabels,
  kSampledClasses,
  kSampledCandidateProbabilities,
  kSampledLabelProbabilities,
  kSampledStateShape
};

constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr int64_t kEvaluationLogits = int64_t{1} << 24;  // number of logits that are in memory at a time

bool sampled_by_vocabulary(const LayerCall& call) { return call.option && call.option->name == "vocabulary"; }

at::ScalarType loss_type(const at::Tensor& states) {
  return states.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// Returns which labels, relative to the worker's first class, are among its `local` classes.
at::Tensor owned_by(const at::Tensor& own_labels, int64_t local) {
  return at::logical_and(own_labels.ge(0), own_labels.lt(local));
}

/// Hides each row's label if it is one of the candidates. `classes` is ascending.
template <class T>
void hide_labels(at::Tensor& logits, const at::Tensor& own_labels, const at::Tensor& classes) {
  const int64_t *label = own_labels.data_ptr<int64_t>(), width = logits.size(1);
  const int64_t *begin = classes.data_ptr<int64_t>(), *end = begin + classes.numel();
  T* row = logits.data_ptr<T>();
  for (int64_t i = 0; i < logits.size(0); ++i, row += width) {
    const int64_t* at = std::lower_bound(begin, end, label[i]);
    if (at != end && *at == label[i]) row[at - begin] = T(kNothing);
  }
}

/// hide_labels for tensors that the host cannot read. `classes`: undefined if they are all of the worker's classes.
void hide_labels_on_device(at::Tensor& logits, const at::Tensor& own_labels, const at::Tensor& classes) {
  const int64_t width = logits.size(1);
  if (width == 0) return;
  at::Tensor column = own_labels, is_hidden = owned_by(own_labels, width);
  if (classes.defined()) {
    column = at::searchsorted(classes, own_labels).clamp_max_(width - 1);
    is_hidden = classes.index_select(0, column).eq(own_labels);
  }
  column = column.clamp(0, width - 1).unsqueeze(1);
  logits.scatter_(1, column, logits.gather(1, column).masked_fill_(is_hidden.unsqueeze(1), kNothing));
}

/// SampledSoftmax::log_expected_count of each label.
at::Tensor log_expected_counts(const at::Tensor& labels, double classes, double tries) {
  const at::Tensor chances = at::add(labels.to(at::kDouble), 1).reciprocal_().log1p_().mul_(1 / std::log(classes + 1));
  return chances.neg_().log1p_().mul_(tries).expm1_().neg_().log_();
}

/// Adds each row to the target's row with its index; several rows may have the same index. They are added in order, so
/// the bits are reproducible. The indices are not checked, so that the host need not wait for them.
void add_rows_in_order(const at::Tensor& target, const at::Tensor& indices, const at::Tensor& rows) {
  at::Tensor sum = target;
  at::_index_put_impl_(sum, {indices}, rows.to(target.scalar_type()), /*accumulate=*/true, /*unsafe=*/true);
}

/// SampledSoftmax::add_parameter_gradients for tensors that the host cannot read. Labels of other workers take part
/// with a gradient of 0: to leave them out, the host would have to read how many labels are the worker's own.
void add_gradients_on_device(LayerCall& call, const at::Tensor& candidate_gradient, const at::Tensor& label_gradient,
                             const at::Tensor& own_labels) {
  const at::Tensor &states = call.saved.at(kSampledStates), &classes = call.saved.at(kSampledClasses);
  auto add = [&](int index, const at::Tensor& of_candidates, const at::Tensor& of_labels) {
    const LayerCall::GradientTarget target = call.gradient_target(index);
    if (!target.accumulate) target.tensor.zero_();
    add_rows_in_order(target.tensor, classes, of_candidates);
    add_rows_in_order(target.tensor, own_labels.clamp(0, target.tensor.size(0) - 1), of_labels);
  };
  if (call.wants_gradient(kSampledWeight))
    add(kSampledWeight, at::mm(candidate_gradient.t(), states), at::mul(states, label_gradient.unsqueeze(1)));
  if (call.wants_gradient(kSampledBias)) add(kSampledBias, candidate_gradient.sum(0), label_gradient);
}

}  // namespace

SampledSoftmax::SampledSoftmax(std::string name, SampledSoftmaxOptions options)
    : Layer(std::move(name)), options_(std::move(options)) {
  const SampledSoftmaxOptions& o = options_;
  if (o.width < 1 || o.samples < 1 || o.samples >= o.classes)
    fail_shape(*this, fmt::format("width {}, {} samples of {} classes", o.width, o.samples, o.classes),
               "the width must be at least 1, the samples at least 1 and fewer than the classes",
               "correct the layer's options");
  if (o.module.empty()) options_.module = this->name();
}

std::vector<ParameterSpec> SampledSoftmax::parameters() const {
  const SampledSoftmaxOptions& o = options_;
  const double bound = 1 / std::sqrt(double(o.width));
  const Init weight = o.deviation > 0 ? Init::normal(0, o.deviation) : Init::uniform(-bound, bound);
  return {{o.module + ".weight", {o.classes, o.width}, weight},
          {o.module + ".bias", {o.classes}, o.deviation > 0 ? Init::constant(0) : weight}};
}

Shape SampledSoftmax::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 2);
  const Shape &states = inputs[0], &labels = inputs[1];
  if (states.empty() || states.size() > 2 || states.back() != options_.width)
    fail_shape(*this, fmt::format("input sample shape {}", to_string(states)),
               fmt::format("states are [{0}] or [positions, {0}] per sample", options_.width),
               "change the layer's width");
  if (labels != Shape(states.begin(), states.end() - 1))
    fail_shape(*this, fmt::format("label sample shape {} for states {}", to_string(labels), to_string(states)),
               "a label is one number per position", "give class indices");
  return {};
}

std::vector<ShardingOption> SampledSoftmax::sharding_options(std::span<const Shape>, int degree) const {
  std::vector<ShardingOption> options{replicate_option(2, kSampledParameters)};
  if (degree == 1 || options_.classes % degree != 0) return options;
  const Placement whole = Placement::replicate(), sum = Placement::partial();
  const std::vector<Placement> rows(kSampledParameters, Placement::shard(0));
  options.push_back({.name = "vocabulary",
                     .inputs = {whole, whole},
                     .output = whole,
                     .input_gradients = {sum, whole},
                     .parameters = rows,
                     .parameter_gradients = rows,
                     .divides_work = true,
                     .communicates_over_tensor_axis = true});
  return options;
}

double SampledSoftmax::forward_flops(std::span<const Shape> inputs) const {
  return 2.0 * double(element_count(inputs[0])) * double(options_.samples + 1);
}

int64_t SampledSoftmax::first_class(const LayerCall& call, int64_t local) const {
  return sampled_by_vocabulary(call) ? local * call.tensor_index : 0;
}

void SampledSoftmax::check_labels(const at::Tensor& labels) const {
  const int64_t *label = labels.data_ptr<int64_t>(), *end = label + labels.numel();
  const int64_t* wrong = std::find_if(label, end, [&](int64_t c) { return c < 0 || c >= options_.classes; });
  if (wrong == end) return;
  fail_shape(*this, fmt::format("label {}", *wrong),
             fmt::format("with {0} classes labels are 0 to {1}", options_.classes, options_.classes - 1),
             "check the dataset's labels or the model's number of classes");
}

double SampledSoftmax::log_expected_count(int64_t c, double tries) const {
  const double chance = std::log1p(1 / (double(c) + 1)) / std::log(double(options_.classes) + 1);
  return std::log(-std::expm1(tries * std::log1p(-chance)));
}

SampledSoftmax::Candidates SampledSoftmax::draw(const LayerCall& call, int64_t local) const {
  const Philox random(random_key(call.seed, name() + ":sampled_softmax"));
  const double log_range = std::log(double(options_.classes) + 1);
  std::unordered_set<int64_t> found;
  uint64_t tries = 0;
  while (int64_t(found.size()) < options_.samples) {
    const auto c = int64_t(std::exp(random.uniform(tries++, uint64_t(call.step)) * log_range)) - 1;
    found.insert(std::clamp<int64_t>(c, 0, options_.classes - 1));
  }
  const int64_t first = first_class(call, local);
  std::vector<int64_t> own;
  for (int64_t c : found)
    if (c >= first && c < first + local) own.push_back(c - first);
  std::sort(own.begin(), own.end());
  Candidates result{at::empty({int64_t(own.size())}, at::kLong), at::empty({int64_t(own.size())}, at::kDouble),
                    double(tries)};
  std::copy(own.begin(), own.end(), result.classes.data_ptr<int64_t>());
  for (size_t i = 0; i < own.size(); ++i)
    result.corrections.data_ptr<double>()[i] = log_expected_count(first + own[i], result.tries);
  return result;
}

at::Tensor SampledSoftmax::candidate_logits(LayerCall& call, const at::Tensor& states, const at::Tensor& labels,
                                            const Candidates& candidates) const {
  at::Tensor weight = call.parameter(kSampledWeight), bias = call.parameter(kSampledBias);
  const int64_t local = weight.size(0);
  const auto type = loss_type(states);
  at::Tensor classes = candidates.classes;
  if (classes.defined()) {
    weight = weight.index_select(0, classes);
    bias = bias.index_select(0, classes);
  } else if (on_host(labels)) {
    classes = at::arange(local, at::kLong);
  }
  bias = bias.to(at::kDouble);
  if (candidates.corrections.defined()) bias = bias - candidates.corrections;
  at::Tensor logits = at::mm(states, weight.t()).to(type).add_(bias.to(type));
  const at::Tensor own_labels = labels - first_class(call, local);
  if (!on_host(labels)) hide_labels_on_device(logits, own_labels, classes);
  else if (type == at::kDouble) hide_labels<double>(logits, own_labels, classes);
  else hide_labels<float>(logits, own_labels, classes);
  return logits;
}

at::Tensor SampledSoftmax::label_logits(LayerCall& call, const at::Tensor& states, const at::Tensor& labels,
                                        double tries) const {
  const at::Tensor &weight = call.parameter(kSampledWeight), &bias = call.parameter(kSampledBias);
  const auto type = loss_type(states);
  const at::Tensor own_labels = labels - first_class(call, weight.size(0)),
                   held = own_labels.clamp(0, weight.size(0) - 1);
  at::Tensor logits = at::mul(states, weight.index_select(0, held)).sum(1, /*keepdim=*/false, type);
  logits.add_(bias.index_select(0, held).to(type));
  if (tries > 0 && !on_host(labels)) {
    logits.sub_(log_expected_counts(labels, double(options_.classes), tries).to(type));
  } else if (tries > 0) {
    at::Tensor corrections = at::empty({labels.numel()}, at::kDouble);
    for (int64_t i = 0; i < labels.numel(); ++i)
      corrections.data_ptr<double>()[i] = log_expected_count(labels.data_ptr<int64_t>()[i], tries);
    logits.sub_(corrections.to(type));
  }
  return logits.masked_fill_(owned_by(own_labels, weight.size(0)).logical_not_(), kNothing);
}

SampledSoftmax::Comparison SampledSoftmax::compare(LayerCall& call, const at::Tensor& states, const at::Tensor& labels,
                                                   const Candidates& candidates) const {
  at::Tensor logits = candidate_logits(call, states, labels, candidates);
  // row 0: maxima over the candidates; row 1: the label's logit
  at::Tensor tops = at::empty({2, logits.size(0)}, logits.options());
  if (logits.size(1) > 0) tops.select(0, 0).copy_(logits.amax(1));
  else tops.select(0, 0).fill_(kNothing);
  tops.select(0, 1).copy_(label_logits(call, states, labels, candidates.tries));
  if (sampled_by_vocabulary(call)) call.tensor_group().all_reduce(tops, ReduceOp::max);
  const at::Tensor top = at::maximum(tops.select(0, 0), tops.select(0, 1)), label = tops.select(0, 1) - top;
  logits.sub_(top.unsqueeze(1)).exp_();
  at::Tensor total = logits.sum(1);
  if (sampled_by_vocabulary(call)) call.tensor_group().all_reduce(total);
  total.add_(label.exp());
  // a maximum over workers may lose a NaN, their sum does not
  const at::Tensor is_right = tops.select(0, 1).ge(tops.select(0, 0)).logical_and_(total.isnan().logical_not_());
  return {total.log() - label, logits.div_(total.unsqueeze(1)), label.exp().div_(total), is_right};
}

at::Tensor SampledSoftmax::compare_with_all(LayerCall& call, const at::Tensor& states, const at::Tensor& labels,
                                            int64_t samples) const {
  const int64_t rows = labels.numel(),
                chunk = std::max<int64_t>(1, kEvaluationLogits / call.parameter(kSampledWeight).size(0));
  at::Tensor losses = at::empty({rows}, states.options().dtype(loss_type(states)));
  at::Tensor right = at::zeros({}, states.options().dtype(at::kDouble));
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    const int64_t count = std::min(chunk, rows - begin);
    const Comparison part = compare(call, states.narrow(0, begin, count), labels.narrow(0, begin, count), {});
    losses.narrow(0, begin, count).copy_(part.losses);
    right.add_(part.is_right.sum());
  }
  call.report("correct", right.mul_(double(samples)).div_(double(std::max<int64_t>(rows, 1))));
  return losses;
}

at::Tensor SampledSoftmax::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const at::Tensor& weight = call.parameter(kSampledWeight);
  const int64_t samples = inputs[0].size(0), rows = inputs[0].numel() / options_.width;
  const at::Tensor states = inputs[0].to(weight.scalar_type()).reshape({rows, options_.width}).contiguous();
  const at::Tensor labels = inputs[1].to(at::kLong).reshape({rows}).contiguous();
  if (on_host(labels)) check_labels(labels);
  at::Tensor losses;
  if (call.training) {
    Candidates candidates = draw(call, weight.size(0));
    if (!on_host(labels)) {  // the host does not wait for the copies
      candidates.classes = candidates.classes.to(labels.device(), at::kLong, /*non_blocking=*/true);
      candidates.corrections = candidates.corrections.to(labels.device(), at::kDouble, /*non_blocking=*/true);
    }
    const Comparison comparison = compare(call, states, labels, candidates);
    losses = comparison.losses;
    call.saved = {states, labels, candidates.classes, comparison.candidates, comparison.label, saved_shape(inputs[0])};
  } else {
    losses = compare_with_all(call, states, labels, samples);
  }
  return samples == 0 ? losses : losses.view({samples, rows / samples}).mean(1);
}

std::vector<at::Tensor> SampledSoftmax::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  check_internal(call.training, "a sampled softmax keeps nothing for a backward after an evaluation");
  const at::Tensor &weight = call.parameter(kSampledWeight), &labels = call.saved.at(kSampledLabels),
                   &classes = call.saved.at(kSampledClasses);
  const int64_t samples = output_gradient.size(0), rows = labels.numel(), positions = samples == 0 ? 1 : rows / samples;
  const at::Tensor label_probabilities = call.saved.at(kSampledLabelProbabilities);
  const at::Tensor factor = at::mul(output_gradient.to(label_probabilities.scalar_type()), 1 / double(positions))
                                .unsqueeze(1)
                                .expand({samples, positions})
                                .reshape({rows});
  const at::Tensor own_labels = labels - first_class(call, weight.size(0)),
                   owned = owned_by(own_labels, weight.size(0));
  const at::Tensor candidate_gradient =
      at::mul(call.saved.at(kSampledCandidateProbabilities), factor.unsqueeze(1)).to(weight.scalar_type());
  const at::Tensor label_gradient = at::mul(label_probabilities - 1, factor).mul_(owned).to(weight.scalar_type());
  at::Tensor input_gradient;
  if (call.wants_input_gradient(0)) {
    input_gradient = at::mm(candidate_gradient, weight.index_select(0, classes));
    input_gradient.add_(
        at::mul(weight.index_select(0, own_labels.clamp(0, weight.size(0) - 1)), label_gradient.unsqueeze(1)));
    input_gradient = input_gradient.view(restore_shape(call.saved.at(kSampledStateShape)));
  }
  if (on_host(labels))
    add_parameter_gradients(call, candidate_gradient, label_gradient, own_labels.masked_select(owned));
  else add_gradients_on_device(call, candidate_gradient, label_gradient, own_labels);
  return {input_gradient, at::Tensor()};
}

/// Adds the gradients of the rows of candidates and labels. `own_labels`: labels that this worker holds, in the order
/// of the positions.
void SampledSoftmax::add_parameter_gradients(LayerCall& call, const at::Tensor& candidate_gradient,
                                             const at::Tensor& label_gradient, const at::Tensor& own_labels) const {
  const at::Tensor &states = call.saved.at(kSampledStates), &classes = call.saved.at(kSampledClasses),
                   &labels = call.saved.at(kSampledLabels);
  const int64_t local = call.parameter(kSampledWeight).size(0);
  const at::Tensor owned = owned_by(labels - first_class(call, local), local).nonzero().squeeze(1);
  auto add = [&](int index, const at::Tensor& of_candidates, const at::Tensor& of_labels) {
    const LayerCall::GradientTarget target = call.gradient_target(index);
    if (!target.accumulate) target.tensor.zero_();
    target.tensor.index_add_(0, classes, of_candidates.to(target.tensor.scalar_type()));
    target.tensor.index_add_(0, own_labels, of_labels.to(target.tensor.scalar_type()));
  };
  const at::Tensor of_owned = label_gradient.index_select(0, owned);
  if (call.wants_gradient(kSampledWeight))
    add(kSampledWeight, at::mm(candidate_gradient.t(), states),
        at::mul(states.index_select(0, owned), of_owned.unsqueeze(1)));
  if (call.wants_gradient(kSampledBias)) add(kSampledBias, candidate_gradient.sum(0), of_owned);
}

/// Split by vocabulary, all drawn classes may be in one worker's share.
LayerMemory SampledSoftmax::memory(const CallShapes& call) const {
  LayerMemory memory = plain_memory(call);
  const CallTensor &states = call.inputs[0], &weight = call.parameters[0];
  const int64_t width = weight.shape[1], rows = states.count() / width,
                classes = std::min(options_.samples, weight.shape[0]);
  const int64_t table = classes * width * call.compute, picked = rows * width * call.compute,
                pairs = rows * classes * call.master;
  const bool mixed = call.compute != call.master;
  memory.keeps_input = {true, true};
  memory.saved = pairs + classes * 8 + rows * call.master + shape_bytes(states);
  memory.input_gradients[1] = 0;
  const int64_t few = classes * 24 + rows * 32;
  set_forward_peak(memory,
                   {pairs + table + (mixed ? rows * classes * call.compute : 0) + few, pairs + 2 * picked + few});
  const int64_t gradient = rows * classes * call.compute;  // bytes of the gradient of the logits
  const int64_t x = call.wanted[0] ? states.bytes() : 0;
  set_backward_peak(memory, {gradient + (mixed ? pairs : 0) + few, gradient + x + std::max(table, 2 * picked) + few,
                             gradient + x + table + picked + few});
  return memory;
}

/// Reads only the rows that it needs. Operators: two look-ups, two products, corrections, maximum, exponentials, sum.
std::vector<OperatorWork> SampledSoftmax::work(const CallShapes& call, double flops, Pass) const {
  std::vector<OperatorWork> work = one_pass(call, flops, 8, true);
  // per element of the states 2 FLOPs for each class that it is compared with
  const double width = double(call.parameters[0].shape[1]), rows = double(call.inputs[0].count()) / width;
  const double classes = rows == 0 ? 0 : flops / (2 * rows * width);
  work[0].bytes = bytes_of(call.inputs) + double(call.output.bytes()) + (classes + rows) * width * double(call.compute);
  return work;
}

LayerExchanges SampledSoftmax::exchanges(const CallShapes& call) const {
  const double rows = double(call.inputs[0].count()) / double(call.parameters[0].shape[1]),
               number = double(call.master);
  return {{{RedistributionKind::all_reduce, 2 * rows * number}, {RedistributionKind::all_reduce, rows * number}}, {}};
}

}  // namespace trireme
