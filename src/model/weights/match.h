// Maps the tensors of a file to those of a model, and reports those that do not match.
#pragma once

#include <string>
#include <vector>

#include "model/weights/weights.h"
#include "trireme/model.h"

namespace trireme {

struct MatchOptions {
  /// What may remain unmatched. strict: nothing; every parameter and buffer of the model is in the file in its shape,
  /// and the file has no other tensors. partial (fine-tuning): tensors that do not match keep their initial values, if
  /// at least one tensor matches.
  enum class Rule { strict, partial };
  Rule rule = Rule::strict;
  /// Parameters and buffers of the model whose names begin with one of these are not loaded, even if the file has them:
  /// {"fc."}.
  std::vector<std::string> skip = {};
  /// Prefix of the file's names before the model's names: "module." (DistributedDataParallel), "transformer.". Tensors
  /// without it are unexpected.
  std::string prefix = {};
  /// Entries of the file that are not tensors (Weights::not_tensors). If the model needs one of them, it is reported as
  /// a mismatch, not as missing.
  std::vector<std::string> not_tensors = {};
};

/// A tensor of the model whose entry in the file does not fit.
struct Mismatch {
  std::string name;
  std::string in_file, in_model;  ///< "[1000, 512]", "[10, 512]"; with the dtype if it does not fit; "no tensor"
};

/// Names are the model's, except in `unexpected` and `derived`, which hold the file's.
struct WeightsMatch {
  /// Tensors to load: by the model's names, in its shapes, in the file's floating dtype. Views of the file's tensors.
  TensorMap tensors;
  std::vector<std::string> missing;  ///< in the model's order
  std::vector<Mismatch> mismatched;
  std::vector<std::string> skipped;  ///< as requested by MatchOptions::skip
  std::vector<std::string> unexpected;
  /// Tensors that PyTorch's modules save and a model does not need: num_batches_tracked, position_ids, masks,
  /// frequencies of rotary positions.
  std::vector<std::string> derived;
  std::vector<std::string> renamed;  ///< "wte.weight as transformer.wte.weight": the file's name and the model's

  bool is_complete() const { return missing.empty() && mismatched.empty() && unexpected.empty(); }
};

/// Compares names and shapes of the model's parameters and buffers with those of a file.
///
/// - A shape may equal the parameter's file_shape (an LSTM's weights are [4, hidden, in] here and [4 * hidden, in] in
///   PyTorch's files, the same values in the same order), or differ from the model's by leading dims that are merged
///   into one in the other.
/// - A tied parameter (several layers declare it: "wte.weight" in the layers "wte" and "lm_head") may be in the file
///   under its name or under the layer's own name ("lm_head.weight"). If it is under both, they must be equal.
/// - If more than half of the model's tensors are in the file without the first component that they have in common
///   ("wte.weight" for "transformer.wte.weight", as in the published files of GPT-2), names without it count as names
///   with it. ".gamma" and ".beta" (published files of BERT) count as ".weight" and ".bias" where the model has these,
///   and the file does not. See WeightsMatch::renamed.
///
/// Throws user errors: an entry of `skip` with which no name of the model begins. Errors in one line that begins with
/// `source` (the file): copies of a tied parameter that differ; under strict, a match that is not is_complete(); under
/// partial, a file of which nothing matches.
WeightsMatch match_weights(const Model& model, const TensorMap& file, const MatchOptions& options,
                           const std::string& source);

/// Returns the report of a match: a line of counts, then for each non-empty list one line with its first names. At most
/// 8 lines, each ends in '\n'.
std::string render(const WeightsMatch& match, const Model& model, const std::string& source);

}  // namespace trireme
