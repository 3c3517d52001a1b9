// Common parts of models that read tokens.
#pragma once

#include <string>

#include "trireme/zoo.h"

namespace trireme {

/// Throws a user error if the samples are not token ids [positions].
void require_tokens(const ModelSpec& spec);

/// Returns the number of distinct token ids: the data set's, or else the number of classes (a language model predicts
/// what it reads).
int64_t vocabulary_of(const ModelSpec& spec);

/// Option of models that read tokens: the number of token ids that the model knows. 0: those of the data.
inline constexpr ModelOption kVocabularyOption{"vocabulary", 0, ModelOption::Kind::size_or_none};

/// Returns the spec with the vocabulary that the options state, if they do: of what the model reads, and in language
/// models also of what it predicts. Errors (user): fewer token ids than the data have.
ModelSpec with_own_vocabulary(ModelSpec spec, const ModelOptions& options);

/// Adds a layer "dropout" after `x` if the probability is not 0. Returns its output.
NodeId dropout_after(ModelBuilder& b, NodeId x, const std::string& name, double probability);

}  // namespace trireme
