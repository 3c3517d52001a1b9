// Common parts of models that read tokens.
#pragma once

#include <string>

#include "zoo/zoo.h"

namespace trireme {

/// Throws a user error if the samples are not token ids [positions].
void require_tokens(const ModelSpec& spec);

/// Returns the number of distinct token ids: the data set's, or else the number of classes (a language model predicts
/// what it reads).
int64_t vocabulary_of(const ModelSpec& spec);

/// Adds a layer "dropout" after `x` if the probability is not 0. Returns its output.
NodeId dropout_after(ModelBuilder& b, NodeId x, const std::string& name, double probability);

}  // namespace trireme
