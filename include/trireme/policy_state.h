// The state of an update policy as plain values, for checkpoints: counters, and tensors whose meaning does not depend
// on how a plan, a server's shards or a policy's fragments cut the weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trireme/replica_state.h"

namespace trireme {

/// What all replicas share of a policy, or one replica's part. Tensors are its own memory. Random numbers are drawn by
/// counter, so the integers here are the only random state.
struct PolicyState {
  std::string policy;                                    ///< UpdatePolicy::description(); empty for a replica's part
  std::map<std::string, std::vector<int64_t>> integers;  ///< one number or a list
  std::map<std::string, std::vector<double>> reals;      ///< finite
  std::map<std::string, at::Tensor>
      weights;  ///< flat: a value per element of ReplicaState::weights, bucket after bucket; float or double
  std::map<std::string, std::vector<RunningStatistics>> statistics;  ///< like ReplicaState::statistics
};

/// The same as a JSON text and named tensors, for a file or a message: "weights/NAME", "statistics/NAME/3/mean",
/// "statistics/NAME/3/variance". Tensors share memory with the state.
struct PolicyStateParts {
  std::string text;
  std::vector<std::pair<std::string, at::Tensor>> tensors;
};
PolicyStateParts parts_of(const PolicyState& state);
/// Errors (user): the text is not one of parts_of, or tensors are missing or unknown. `where` is the file, for
/// messages.
PolicyState policy_state_from(const PolicyStateParts& parts, const std::string& where);

/// Saves the values of a policy to a PolicyState, or restores them from one, so that a policy names each value only
/// once. Errors (user) when restoring: the state lacks the value, or it has another length or dtype.
class StateFields {
 public:
  /// Saves. `state` must outlive this object; it has its tensors after done().
  explicit StateFields(PolicyState& state) : out_(&state), state_(state) {}
  /// Restores. `where` names the state in messages. `first_element` is the first element of the weights to be read.
  StateFields(const PolicyState& state, std::string where, int64_t first_element = 0)
      : state_(state), where_(std::move(where)), first_element_(first_element) {}

  bool reads() const { return out_ == nullptr; }
  const PolicyState& state() const { return state_; }

  void value(const std::string& name, int64_t& value);
  void value(const std::string& name, int& value);
  void value(const std::string& name, bool& value);
  void value(const std::string& name, double& value);
  /// When restoring, a non-empty list must have as many elements as the state's.
  void value(const std::string& name, std::vector<int64_t>& values);
  void value(const std::string& name, std::vector<double>& values);

  /// Parts of the weights' elements, in their order. A later call with the same name continues where the last one
  /// ended.
  void weights(const std::string& name, std::span<at::Tensor> parts);
  /// Optional parts: none, or as many as `like`. When restoring, new parts are made like those of `like`, except for
  /// `dtype`.
  void weights_if_any(const std::string& name, std::vector<at::Tensor>& parts, std::span<const at::Tensor> like,
                      std::optional<at::ScalarType> dtype = std::nullopt);
  /// When restoring, replaces the present statistics.
  void statistics(const std::string& name, std::vector<RunningStatistics>& statistics);
  /// As statistics(), but the state's must have the shapes of the present ones.
  void statistics_like(const std::string& name, std::vector<RunningStatistics>& statistics);

  /// Call it after the last value. Errors (user) when restoring: the state has values that were not requested.
  void done();

  /// Throws a user error: value `what` of the state does not fit, for the reason `why`.
  [[noreturn]] void refuse(const std::string& what, std::string why) const;

 private:
  template <class T>
  void list(std::map<std::string, std::vector<T>>* out, const std::map<std::string, std::vector<T>>& in,
            const std::string& name, std::vector<T>& values);

  PolicyState* const out_ = nullptr;
  const PolicyState& state_;
  const std::string where_;
  const int64_t first_element_ = 0;
  std::map<std::string, std::vector<at::Tensor>> written_;  ///< weights to be saved, until done()
  std::map<std::string, int64_t> next_element_;             ///< by name: next element of the weights that are read
  std::set<std::string> used_;                              ///< names of other values that were read
};

}  // namespace trireme
