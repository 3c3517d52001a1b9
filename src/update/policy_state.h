// The state of an update policy as a JSON text and named tensors, for a file or a message.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "trireme/policy.h"

namespace trireme {

/// The text has the numbers. Names of tensors: "weights/NAME", "statistics/NAME/3/mean",
/// "statistics/NAME/3/variance". Tensors share memory with the state.
struct PolicyStateParts {
  std::string text;
  std::vector<std::pair<std::string, at::Tensor>> tensors;
};
PolicyStateParts parts_of(const PolicyState& state);
/// Errors (user): the text is not one of parts_of, or tensors are missing or unknown. `where` is the file, for
/// messages.
PolicyState policy_state_from(const PolicyStateParts& parts, const std::string& where);

/// Errors (user): the descriptions of two policies (UpdatePolicy::description) differ; the message names the options
/// that do. `written`: of the policy of the state, `mine`: of this run's. `where` is the file, for messages.
void check_same_policy(const std::string& where, const std::string& written, const std::string& mine);

}  // namespace trireme
