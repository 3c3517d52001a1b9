// Compression of values that a replica sends repeatedly, with error feedback: the error of the code is added to the
// next values, so that nothing is lost, only delayed.
//
// Seide et al., "1-bit stochastic gradient descent and its application to data-parallel distributed training of speech
// DNNs", 2014; Stich, Cordonnier, Jaggi, "Sparsified SGD with memory", 2018. For weights that are averaged every few
// steps: Basu et al., "Qsparse-local-SGD", 2019: the change since the last average is sent in place of the weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/hub.h"
#include "trireme/policy.h"
#include "update/codec.h"
#include "update/padding.h"

namespace trireme {

/// A sequence of messages of one replica. Needs memory for one copy of the weights from the first message on. Not
/// thread-safe.
class ErrorFeedback {
 public:
  /// `codec`: nullopt: nothing is compressed. `name`: name of the errors in saved states.
  ErrorFeedback(std::optional<Codec> codec, std::string name) : codec_(codec), name_(std::move(name)) {}

  bool is_wanted() const { return codec_.has_value(); }
  /// Null without a code.
  ErrorFeedback* if_wanted() { return is_wanted() ? this : nullptr; }
  const Codec& codec() const { return *codec_; }

  /// Returns the accumulated errors of the code, cut like `like`; zeros at first. For encode(), and to be added to
  /// messages without a code.
  std::span<at::Tensor> errors(std::span<const at::Tensor> like);
  /// True if something was encoded since the beginning or the last clear().
  bool has_errors() const { return !errors_.empty(); }
  /// Encodes values + error. Writes the new error of the code to `error`, a part of errors(). Values that are not
  /// finite leave no error. `padding`: of the values (codec.h).
  at::Tensor encode(const at::Tensor& values, at::Tensor error, std::span<const Range> padding = {}) const;

  /// Forgets the errors.
  void clear() { errors_.clear(); }

  /// Saves or restores the errors. `like`: cut like the weights.
  void fields(StateFields& fields, std::span<const at::Tensor> like);

 private:
  const std::optional<Codec> codec_;
  const std::string name_;
  std::vector<at::Tensor> errors_;  ///< empty before the first message
};

/// The weights that a replica sends. With compression, their change since the last exchange is encoded and sent
/// instead. The receiver knows the weights of the last exchange up to the code's error. Needs memory for two copies of
/// the weights. Not thread-safe.
class SentWeights {
 public:
  explicit SentWeights(std::optional<Codec> codec) : feedback_(codec, "weights") {}

  /// Null: weights are sent as they are.
  ErrorFeedback* feedback() { return feedback_.if_wanted(); }
  /// Notes the weights of an exchange. Call it after the policy's begin and after each exchange.
  void mark(std::span<const at::Tensor> weights);
  /// Returns the tensors to send: the weights or, with compression, their change since mark(). The change is in memory
  /// of this object and valid until the next mark().
  std::span<const at::Tensor> to_send(std::span<const at::Tensor> weights);

  void fields(StateFields& fields, std::span<const at::Tensor> weights);

 private:
  ErrorFeedback feedback_;
  std::vector<at::Tensor> mark_;  ///< empty without compression
};

/// The mean of the weights of all replicas, computed from compressed messages. All functions except fields() are
/// collective.
class CompressedMean {
 public:
  CompressedMean(std::optional<Codec> codec, Hub& hub) : feedback_(codec, "weights"), hub_(hub) {}

  bool is_wanted() const { return feedback_.is_wanted(); }
  /// Call it when all replicas have the same weights, before the first mean.
  void begin(const ReplicaState& state);
  /// True if there was a mean of codes since the last exact one, so that the weights lack the codes' errors. Equal on
  /// all replicas.
  bool lacks_errors() const { return feedback_.has_errors(); }
  /// Replaces the weights by the last common weights plus the mean of the replicas' encoded changes. The result is
  /// equal on all replicas.
  void average(std::span<at::Tensor> weights);
  /// The same without a code. The accumulated errors are added to the messages and forgotten.
  void average_exactly(std::span<at::Tensor> weights);
  /// Replaces `weights`, a copy, by the result that average_exactly would give, and changes nothing else.
  void look_ahead(std::span<at::Tensor> weights);

  void fields(StateFields& fields, std::span<const at::Tensor> weights);

 private:
  ErrorFeedback feedback_;
  Hub& hub_;
  std::vector<Padding> padding_;    ///< by bucket
  std::vector<at::Tensor> common_;  ///< the weights after the last mean; empty without compression
};

}  // namespace trireme
