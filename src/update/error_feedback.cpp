#include "update/error_feedback.h"

#include <ATen/ATen.h>

#include <utility>

#include "trireme/error.h"

namespace trireme {
namespace {

std::vector<at::Tensor> copies_like(std::span<const at::Tensor> tensors) {
  std::vector<at::Tensor> copies;
  copies.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) copies.push_back(tensor.clone());
  return copies;
}

}  // namespace

std::span<at::Tensor> ErrorFeedback::errors(std::span<const at::Tensor> like) {
  if (errors_.empty()) {
    errors_.reserve(like.size());
    for (const at::Tensor& tensor : like) errors_.push_back(at::zeros_like(tensor));
  }
  return errors_;
}

at::Tensor ErrorFeedback::encode(const at::Tensor& values, at::Tensor error, std::span<const Range> padding) const {
  error.add_(values);
  at::Tensor encoded = trireme::encode(*codec_, error, padding);
  check_internal(add_decoded(*codec_, encoded, error, -1, padding), "a replica's own code has the size of its values");
  error.nan_to_num_(0, 0, 0);
  return encoded;
}

void ErrorFeedback::fields(StateFields& fields, std::span<const at::Tensor> like) {
  if (is_wanted()) fields.weights_if_any("error of " + name_, errors_, like);
}

void SentWeights::mark(std::span<const at::Tensor> weights) {
  if (!feedback_.is_wanted()) return;
  if (mark_.empty()) mark_ = copies_like(weights);
  else
    for (size_t b = 0; b < mark_.size(); ++b) mark_[b].copy_(weights[b]);
}

std::span<const at::Tensor> SentWeights::to_send(std::span<const at::Tensor> weights) {
  if (!feedback_.is_wanted()) return weights;
  for (size_t b = 0; b < mark_.size(); ++b) at::sub_out(mark_[b], weights[b], mark_[b]);
  return mark_;
}

void SentWeights::fields(StateFields& fields, std::span<const at::Tensor> weights) {
  feedback_.fields(fields, weights);
  if (feedback_.is_wanted()) fields.weights_if_any("weights that were sent", mark_, weights);
}

void CompressedMean::begin(const ReplicaState& state) {
  if (!is_wanted()) return;
  padding_ = padding_by_bucket(state);
  common_ = copies_like(state.weights);
}

void CompressedMean::average(std::span<at::Tensor> weights) {
  const std::span<at::Tensor> errors = feedback_.errors(weights);
  std::vector<std::unique_ptr<Pending>> gathered;
  gathered.reserve(weights.size());
  for (size_t b = 0; b < weights.size(); ++b)
    gathered.push_back(hub_.begin_gather(feedback_.encode(weights[b] - common_[b], errors[b], padding_[b])));
  for (size_t b = 0; b < weights.size(); ++b) {
    at::Tensor sum = at::zeros_like(common_[b]);
    for (const at::Tensor& encoded : gathered[b]->wait())
      check_internal(add_decoded(feedback_.codec(), encoded, sum, 1, padding_[b]),
                     "replicas encode weights of one size");
    common_[b].add_(sum, 1.0 / hub_.replicas());
    weights[b].copy_(common_[b]);
  }
}

void CompressedMean::look_ahead(std::span<at::Tensor> weights) {
  if (feedback_.has_errors()) {
    const std::span<at::Tensor> errors = feedback_.errors(weights);
    for (size_t b = 0; b < weights.size(); ++b) weights[b].add_(errors[b]);
  }
  hub_.average(weights);
}

void CompressedMean::average_exactly(std::span<at::Tensor> weights) {
  look_ahead(weights);
  feedback_.clear();
  for (size_t b = 0; b < weights.size(); ++b) common_[b].copy_(weights[b]);
}

void CompressedMean::fields(StateFields& fields, std::span<const at::Tensor> weights) {
  feedback_.fields(fields, weights);
  if (is_wanted()) fields.weights_if_any("weights of the last mean", common_, weights);
}

}  // namespace trireme
