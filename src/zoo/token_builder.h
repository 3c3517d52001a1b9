// What models that read tokens have in common.
#pragma once

#include <string>

#include "zoo/zoo.h"

namespace trireme {

/// User error where the samples are no token ids [positions].
void require_tokens(const ModelSpec& spec);

/// Token ids to tell apart: the data set's, else the classes (a language model predicts what it reads).
int64_t vocabulary_of(const ModelSpec& spec);

/// "dropout" after `x` where there is to be one.
NodeId dropout_after(ModelBuilder& b, NodeId x, const std::string& name, double probability);

}  // namespace trireme
