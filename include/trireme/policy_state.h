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
/// counter: there is no other random state than the integers here.
struct PolicyState {
  std::string policy;                                    ///< UpdatePolicy::description; of a replica's part: empty
  std::map<std::string, std::vector<int64_t>> integers;  ///< one number or a list
  std::map<std::string, std::vector<double>> reals;      ///< finite
  std::map<std::string, at::Tensor>
      weights;  ///< flat: a value per element of ReplicaState::weights, bucket after bucket; float or double
  std::map<std::string, std::vector<RunningStatistics>> statistics;  ///< like ReplicaState::statistics
};

/// The same as a text (JSON) and named tensors, which a file or a message holds: "weights/NAME",
/// "statistics/NAME/3/mean", "statistics/NAME/3/variance". Tensors are shared with the state.
struct PolicyStateParts {
  std::string text;
  std::vector<std::pair<std::string, at::Tensor>> tensors;
};
PolicyStateParts parts_of(const PolicyState& state);
/// Errors (user): the text is none of parts_of, tensors are missing or unknown. `where`: for messages, the file.
PolicyState policy_state_from(const PolicyStateParts& parts, const std::string& where);

/// Copies the values of a policy out into a PolicyState, or in from one: a policy names its values once, for both.
/// Errors (user), when reading: the state has no such value, or one of another length or dtype.
class StateFields {
 public:
  /// Copies out. `state` outlives this and has its tensors after done().
  explicit StateFields(PolicyState& state) : out_(&state), state_(state) {}
  /// Copies in. `where`: whose state it is, for messages; `first_element`: the first of the weights that are read.
  StateFields(const PolicyState& state, std::string where, int64_t first_element = 0)
      : state_(state), where_(std::move(where)), first_element_(first_element) {}

  bool reads() const { return out_ == nullptr; }
  const PolicyState& state() const { return state_; }

  void value(const std::string& name, int64_t& value);
  void value(const std::string& name, int& value);
  void value(const std::string& name, bool& value);
  void value(const std::string& name, double& value);
  /// A list that is not empty must have as many elements when it is read.
  void value(const std::string& name, std::vector<int64_t>& values);
  void value(const std::string& name, std::vector<double>& values);

  /// Parts of the weights' elements, in their order; calls with the same name go on where the last one ended.
  void weights(const std::string& name, std::span<at::Tensor> parts);
  /// Parts that may not be there: none are, or as many as `like`, which new ones are made like when they are read, but
  /// for `dtype`.
  void weights_if_any(const std::string& name, std::vector<at::Tensor>& parts, std::span<const at::Tensor> like,
                      std::optional<at::ScalarType> dtype = std::nullopt);
  /// Replaces those that are there when it reads.
  void statistics(const std::string& name, std::vector<RunningStatistics>& statistics);
  /// statistics, which must be like those that are there.
  void statistics_like(const std::string& name, std::vector<RunningStatistics>& statistics);

  /// After the last value. Errors (user), when reading: the state has more than was asked for.
  void done();

  /// Errors (user): `what` of the state does not fit, `why`.
  [[noreturn]] void refuse(const std::string& what, std::string why) const;

 private:
  template <class T>
  void list(std::map<std::string, std::vector<T>>* out, const std::map<std::string, std::vector<T>>& in,
            const std::string& name, std::vector<T>& values);

  PolicyState* const out_ = nullptr;
  const PolicyState& state_;
  const std::string where_;
  const int64_t first_element_ = 0;
  std::map<std::string, std::vector<at::Tensor>> written_;  ///< weights, until done
  std::map<std::string, int64_t> next_element_;             ///< of weights that are read
  std::set<std::string> used_;                              ///< names of other values that were read
};

}  // namespace trireme
