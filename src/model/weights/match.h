// Which tensors of a file go where in a model, and what to say about those that do not.
#pragma once

#include <string>
#include <vector>

#include "trireme/model.h"
#include "trireme/tensor_map.h"

namespace trireme {

struct MatchOptions {
  /// What a file may leave open. strict: nothing; every parameter and buffer of the model is in the file in its shape,
  /// and the file has no others. partial (fine-tuning): whatever does not match keeps its initial value, as long as
  /// something matches.
  enum class Rule { strict, partial };
  Rule rule = Rule::strict;
  /// Parameters and buffers of the model whose names start so are left alone, in the file or not: {"fc."}.
  std::vector<std::string> skip = {};
  /// What the file puts before the model's names: "module." (DistributedDataParallel), "transformer.". Tensors without
  /// it are unexpected.
  std::string prefix = {};
  /// Entries of the file that are no tensors (Weights::not_tensors), so that those the model wants are not called
  /// missing.
  std::vector<std::string> not_tensors = {};
};

/// A tensor of the model that the file has in a form that does not fit.
struct Mismatch {
  std::string name;
  std::string in_file, in_model;  ///< "[1000, 512]", "[10, 512]"; with the dtype where that is at fault; "no tensor"
};

/// Names are the model's, but for `unexpected` and `derived`: these are the file's.
struct WeightsMatch {
  /// To be loaded: by the model's names, in its shapes, of the file's floating dtype; views of the file's tensors.
  TensorMap tensors;
  std::vector<std::string> missing;  ///< in the model's order
  std::vector<Mismatch> mismatched;
  std::vector<std::string> skipped;  ///< by request
  std::vector<std::string> unexpected;
  std::vector<std::string>
      derived;  ///< what modules of PyTorch save and nobody needs: num_batches_tracked, position_ids, masks

  bool is_complete() const { return missing.empty() && mismatched.empty() && unexpected.empty(); }
};

/// Compares names and shapes of the model's parameters and buffers with a file's.
///
/// - A shape may be the parameter's in files (an LSTM's weights are [4, hidden, in] here and [4 * hidden, in] in
/// PyTorch's files, the
///   same values in the same order), or differ from the model's by leading dims that are one dim in the other.
/// - A tied parameter (several layers declare it: "wte.weight" in the layers "wte" and "lm_head") may be in the file
/// under its name
///   or as the layer's own ("lm_head.weight"); where it is under both, they must be equal.
///
/// User errors: a name to skip with which no name of the model begins. In one line that begins with `source` (the
/// file): copies of a tied parameter that differ; under strict whatever is_complete() denies; under partial a file of
/// which nothing matches.
WeightsMatch match_weights(const Model& model, const TensorMap& file, const MatchOptions& options,
                           const std::string& source);

/// The report of a match: a line of counts, then one line for each list that is not empty with its first names. At most
/// 7 lines, each ended by '\n'.
std::string render(const WeightsMatch& match, const Model& model, const std::string& source);

}  // namespace trireme
