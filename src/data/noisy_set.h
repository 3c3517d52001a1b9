// A data set whose inputs have noise of their own: features that differ from client to client.
//
// Li, Diao, Chen, He, "Federated learning on non-IID data silos: an experimental study", 2022, noise-based feature
// distribution skew: the samples of client i of N get normal noise with a variance of sigma i / N.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/dataset.h"

namespace trireme {

/// The samples of `set`, with normal noise added to every input value, after augmentation. A value's noise depends on
/// the key, the sample's index and the value's place in the sample only: it is the same in every epoch and on every
/// worker.
class NoisySet final : public Dataset {
 public:
  /// `deviations`: the noise's standard deviation, in units of the inputs, by sample; a single entry is that of all
  /// samples. `where`: the table that asks for noise, for messages. Errors (user): inputs that are token ids. Other
  /// inputs that are not real numbers are an error (user) of `get`.
  NoisySet(std::shared_ptr<const Dataset> set, std::vector<double> deviations, uint64_t key, std::string where);

  int64_t size() const override { return set_->size(); }
  Shape sample_shape() const override { return set_->sample_shape(); }
  Shape target_shape() const override { return set_->target_shape(); }
  LearningTask task() const override { return set_->task(); }
  int64_t classes() const override { return set_->classes(); }
  int64_t vocabulary() const override { return set_->vocabulary(); }
  bool is_stream() const override { return set_->is_stream(); }
  bool decodes() const override { return set_->decodes(); }
  Samples get(std::span<const int64_t> indices, const Draw& draw) const override;

 private:
  const std::shared_ptr<const Dataset> set_;
  const std::vector<double> deviations_;
  const uint64_t key_;
  const std::string where_;
};

}  // namespace trireme
