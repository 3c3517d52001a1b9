#include "runtime/local_parts_of.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "program/graph.h"
#include "runtime/replica_view.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr const char* kBatchNorm = "batch-norm";  // stands for all layers with running statistics

/// Adds the names of the model's parameters and buffers that the word names.
void add_names(const Model& model, const std::string& word, std::set<std::string>& names) {
  for (const Node& node : model.nodes()) {
    if (!node.layer) continue;
    const Layer& layer = *node.layer;
    const std::vector<BufferSpec> buffers = layer.buffers();
    const bool whole = word == kBatchNorm && !statistics_indices(buffers).empty();
    for (const ParameterSpec& parameter : layer.parameters())
      if (whole || freezes(word, parameter.name)) names.insert(parameter.name);
    for (const BufferSpec& buffer : buffers)
      if (whole || freezes(word, buffer.name)) names.insert(buffer.name);
  }
}

[[noreturn]] void refuse_all_local(const std::string& where) {
  fail_user({where, "all parameters that are trained stay with each client", "nothing would be exchanged",
             "name fewer, or train a single replica"});
}

/// Adds a run, or makes the last one longer.
void add_run(size_t bucket, int64_t elements, bool is_local, std::vector<LocalParts::Run>& runs) {
  if (elements == 0) return;
  const bool continues = !runs.empty() && runs.back().bucket == bucket;
  if (continues && runs.back().is_local == is_local) {
    runs.back().elements += elements;
    return;
  }
  const int64_t offset = continues ? runs.back().offset + runs.back().elements : 0;
  runs.push_back({bucket, offset, elements, is_local});
}

/// Adds the runs of a slice, which is number `place` in the state.
void add_slice(const Program& training, const Bucket& bucket, const Range& slice, size_t place,
               const std::set<std::string>& names, std::vector<LocalParts::Run>& runs) {
  std::vector<const ParameterShard*> shards;
  shards.reserve(bucket.shards.size());
  for (const ParameterShard& shard : bucket.shards) shards.push_back(&shard);
  std::sort(shards.begin(), shards.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
  for (size_t s = 0; s < shards.size(); ++s) {
    const int64_t first = s == 0 ? 0 : shards[s]->offset;
    const int64_t end = s + 1 < shards.size() ? shards[s + 1]->offset : bucket.elements;
    const int64_t begin = std::max(first, slice.begin);
    const bool is_local = names.contains(training.parameters[size_t(shards[s]->parameter)].spec.name);
    add_run(place, std::max<int64_t>(0, std::min(end, slice.end) - begin), is_local, runs);
  }
}

}  // namespace

std::set<std::string> local_names(const Model& model, const std::vector<std::string>& words, const std::string& where) {
  std::set<std::string> names;
  for (const std::string& word : words) {
    std::set<std::string> found;
    add_names(model, word, found);
    if (found.empty() && word == kBatchNorm)
      fail_user({where, fmt::format("\"{}\"", word), "the model has no layer with running statistics",
                 "leave it out, or choose a model with batch norm"});
    if (found.empty())
      fail_user({where, fmt::format("\"{}\"", word), "the model has no such parameter",
                 "use \"batch-norm\", or names that `trireme verify` lists"});
    names.merge(found);
  }
  return names;
}

void check_local_parameters(const Model& model, const std::vector<std::string>& words, const std::string& where) {
  if (words.empty()) return;
  const std::set<std::string> names = local_names(model, words, where);
  const std::vector<ParameterSpec> parameters = model.parameters();
  if (std::all_of(parameters.begin(), parameters.end(),
                  [&](const ParameterSpec& parameter) { return names.contains(parameter.name); }))
    refuse_all_local(where);
}

LocalParts local_parts_of(const Program& training, const Model& model, const std::vector<std::string>& words,
                          const std::string& where) {
  const std::set<std::string> names = local_names(model, words, where);
  LocalParts parts;
  size_t place = 0;
  for (const Bucket& bucket : training.buckets) {
    if (bucket.contributors.empty()) continue;  // frozen
    for (const int holder : bucket.holders) {
      const Range slice = bucket.slice_of(holder);
      if (!slice.empty()) add_slice(training, bucket, slice, place++, names, parts.runs);
    }
  }
  if (std::all_of(parts.runs.begin(), parts.runs.end(), [](const LocalParts::Run& run) { return run.is_local; }))
    refuse_all_local(where);
  for (int rank = 0; rank < training.devices; ++rank)  // in the order in which the workers call ReplicaView::show
    for (const Op& op : training.ops) {
      if (op.mesh.index_of(rank) < 0) continue;
      const std::vector<BufferSpec> specs = model.node(op.node).layer->buffers();
      for (const auto& [mean, variance] : statistics_indices(specs))
        parts.statistics.push_back(names.contains(specs[mean].name));
    }
  return parts;
}

}  // namespace trireme
