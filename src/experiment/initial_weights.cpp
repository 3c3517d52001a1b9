#include "experiment/initial_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "model/weights/read_weights.h"
#include "model/weights/weights.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFoldersShown = 5;

/// Returns the folders within `path` that hold weights: the rows of a comparison.
std::vector<std::string> rows_with_weights(const fs::path& path) {
  std::vector<std::string> rows;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, ignored))
    if (fs::is_regular_file(entry.path() / kWeightsFile, ignored)) rows.push_back(entry.path().filename().string());
  std::sort(rows.begin(), rows.end());
  return rows;
}

}  // namespace

std::optional<InitialWeights> read_initial_weights(const ConfigTable& model, const fs::path& folder) {
  const std::vector<std::string> details{"weights_match", "weights_skip", "weights_prefix"};
  if (!model.has("weights")) {
    for (const std::string& key : details)
      if (model.has(key))
        model.fail(key, "describes how a file of weights is read, but no file is named",
                   "name it: weights = \"resnet18.safetensors\"");
    return std::nullopt;
  }
  const std::string name = model.require_string("weights");
  if (name.empty()) model.fail("weights", "no file", "name one, or leave the key out");
  InitialWeights weights;
  weights.path = folder / name;
  weights.where = model.where("weights");
  if (model.get_choice("weights_match", "strict", {"strict", "partial"}) == "partial")
    weights.match.rule = MatchOptions::Rule::partial;
  weights.match.skip = model.get_strings("weights_skip", {});
  for (const std::string& prefix : weights.match.skip)
    if (prefix.empty())
      model.fail("weights_skip", "a name is empty, which would skip all tensors",
                 "name what to leave out, for example [\"fc.\"]");
  weights.match.prefix = model.get_string("weights_prefix", "");
  return weights;
}

fs::path weights_file(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  if (fs::exists(path / kWeightsFile, ignored)) return path / kWeightsFile;
  const std::vector<std::string> rows = rows_with_weights(path);
  fail_user({.where = path.string(),
             .what = fmt::format("no {}", kWeightsFile),
             .why = rows.empty() ? "the folder is not a run's, or the run saved no weights"
                                 : "it has folders of several runs, each with weights of its own",
             .next = rows.empty()
                         ? "name a file of weights: that of a checkpoint is model.safetensors.index.json in its folder"
                         : fmt::format("name one of these folders: {}", list_names(rows, kFoldersShown))});
}

}  // namespace trireme
