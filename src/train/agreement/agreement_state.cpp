#include "train/agreement/agreement_state.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/random.h"
#include "checkpoint/state_tensors.h"
#include "trireme/error.h"
#include "update/policy_state.h"

namespace trireme {
namespace {

constexpr const char* kWhere = "the checkpoint";
constexpr const char* kValues = "values";           // of the best evaluation, in its PolicyState
constexpr const char* kOrder = "order of weights";  // key of a text
constexpr std::string_view kWeights = "weights/", kBuffers = "buffers/";

std::string of_replica(int replica) { return fmt::format("replica/{}/", replica); }
std::string of_policy(const std::string& whose) { return fmt::format("policy/{}/", whose); }
std::string progress_of(int replica) { return fmt::format("progress of {}", replica); }

/// Takes out the tensors whose names begin with `prefix`. The returned names have no prefix.
std::vector<std::pair<std::string, at::Tensor>> take_named(const std::string& prefix, TensorMap& tensors) {
  std::vector<std::pair<std::string, at::Tensor>> taken;
  for (auto entry = tensors.lower_bound(prefix); entry != tensors.end() && entry->first.starts_with(prefix);
       entry = tensors.erase(entry))
    taken.emplace_back(entry->first.substr(prefix.size()), std::move(entry->second));
  return taken;
}

[[noreturn]] void refuse(std::string what, std::string why, const std::string& where = kWhere) {
  fail_user({where, std::move(what), std::move(why), "resume under the plan that wrote it, or start a new run"});
}

void put(const std::string& name, at::Tensor tensor, TrainingState& state) {
  if (name.starts_with(kWeights)) state.weights[name.substr(kWeights.size())] = std::move(tensor);
  else if (name.starts_with(kBuffers)) state.buffers[name.substr(kBuffers.size())] = std::move(tensor);
  else if (!put_state_tensor(name, std::move(tensor), state))
    refuse(fmt::format("tensor \"{}\"", name), "this version does not know its name");
}

void add_progress(int replica, const ReplicaProgress& progress, int64_t updates, TrainingState& all) {
  all.agreement_texts[progress_of(replica)] =
      nlohmann::json{{"steps", progress.steps}, {"samples", progress.samples}, {"updates", updates}}.dump();
}

nlohmann::json progress_from(const std::string& text) {
  const nlohmann::json read = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  for (const char* key : {"steps", "samples", "updates"})
    if (!read.is_object() || !read.contains(key) || !read[key].is_number_integer() || read[key] < 0)
      refuse("a replica's progress", fmt::format("\"{}\" is not a whole number", key));
  return read;
}

/// All replicas begin with the server's weights.
AgreementParts of_server(TrainingState all, AgreementParts parts) {
  all.agreement_texts.clear();
  all.agreement.clear();
  all.updates = 0;
  for (TrainingState& replica : parts.replicas) replica = all;
  return parts;
}

/// True if the policy stores weights, not only numbers and statistics.
bool has_weights_of_policy(const TrainingState& state) {
  return std::any_of(state.agreement.begin(), state.agreement.end(), [](const auto& entry) {
    return entry.first.starts_with("policy/") && entry.first.find("/weights/") != std::string::npos;
  });
}

PolicyState policy_of(const std::string& whose, TrainingState& all) {
  const auto text = all.agreement_texts.find(whose);
  if (text == all.agreement_texts.end())
    refuse("the update policy's state", fmt::format("that of \"{}\" is missing", whose));
  return policy_state_from({text->second, take_named(of_policy(whose), all.agreement)}, kWhere);
}

std::optional<ModelValues> take_best(TrainingState& all) {
  if (!all.agreement_texts.contains(kBest)) return std::nullopt;
  PolicyState state = policy_of(kBest, all);
  if (state.weights.size() != 1 || !state.weights.contains(kValues))
    refuse("the weights of the best evaluation", "they are missing");
  return ModelValues{{std::move(state.weights[kValues])}, std::move(state.statistics[kValues])};
}

}  // namespace

void add_progress(int replica, const ReplicaProgress& progress, TrainingState& all) {
  add_progress(replica, progress, 0, all);
}

void add_replica(int replica, const ReplicaProgress& progress, TrainingState own, TrainingState& all) {
  add_progress(replica, progress, own.updates, all);
  if (replica == 0) {
    own.agreement = std::move(all.agreement);
    own.agreement_texts = std::move(all.agreement_texts);
    all = std::move(own);
    return;
  }
  const std::string prefix = of_replica(replica);
  const auto add = [&](std::string_view kind, const TensorMap& tensors) {
    for (const auto& [name, tensor] : tensors) all.agreement[fmt::format("{}{}{}", prefix, kind, name)] = tensor;
  };
  add(kWeights, own.weights);
  add(kBuffers, own.buffers);
  add("", state_tensors(own));
}

void add_policy(const std::string& whose, const PolicyStateParts& parts, TrainingState& all) {
  all.agreement_texts[whose] = parts.text;
  for (const auto& [name, tensor] : parts.tensors) all.agreement[of_policy(whose) + name] = tensor;
}

void add_best(const ModelValues& values, TrainingState& all) {
  PolicyState state;
  state.weights[kValues] = at::cat(values.weights).cpu();
  std::vector<RunningStatistics>& statistics = state.statistics[kValues];
  statistics.reserve(values.statistics.size());
  for (const RunningStatistics& s : values.statistics) statistics.push_back({s.mean.cpu(), s.variance.cpu()});
  add_policy(kBest, parts_of(state), all);
}

std::string order_of_weights(const Program& program) {
  std::string text, last;
  int64_t at = 0;  // where the slice begins
  for (const Bucket& bucket : program.buckets) {
    if (bucket.contributors.empty()) continue;  // frozen
    for (const int holder : bucket.holders) {
      const Range slice = bucket.slice_of(holder);
      for (const ParameterShard& shard : bucket.shards) {
        if (shard.offset >= slice.end || shard.offset + shard.size() <= slice.begin) continue;
        std::string line = program.parameters[size_t(shard.parameter)].spec.name;
        for (const Range& range : shard.box) line += fmt::format(" {}-{}", range.begin, range.end);
        line += fmt::format(" at {}\n", at + shard.offset - slice.begin);
        if (line != last) text += line;  // equal lines: the shard began in the previous slice
        last = std::move(line);
      }
      at += slice.size();
    }
  }
  return fmt::format("{:016x}", random_key(0, text));
}

void add_order(const Program& program, TrainingState& all) { all.agreement_texts[kOrder] = order_of_weights(program); }

void check_order(const Program& program, const TrainingState& state) {
  const auto written = state.agreement_texts.find(kOrder);
  if (written == state.agreement_texts.end() || written->second == order_of_weights(program)) return;
  if (!has_weights_of_policy(state)) return;
  fail_user({kWhere, "the weights that the update policy stores",
             "they lie in another order than under this plan with this precision and these frozen parameters",
             "resume under the plan, the precision and the frozen parameters that wrote it, or start a new run"});
}

void check_agreement_state(const Plan& plan, const TrainingState& state, const std::string& path) {
  const std::string where = path.empty() ? kWhere : path;
  if (plan.agreement.empty() && state.agreement_texts.empty()) return;
  if (plan.agreement.empty())
    refuse("the state of replicas that agree", fmt::format("plan {} has no agreement", plan.name), where);
  if (state.agreement_texts.empty())
    refuse("a state of a plan without an agreement",
           "replicas under an update policy resume only a state of such replicas", where);
  int written = 0;
  while (state.agreement_texts.contains(std::to_string(written)) ||
         state.agreement_texts.contains(progress_of(written)))
    ++written;
  if (written != plan.replicas)
    refuse(fmt::format("a state of {} replicas", written), fmt::format("the plan has {}", plan.replicas), where);
}

void check_policy_of_state(const UpdatePolicy& policy, const TrainingState& state, const std::string& path) {
  const auto text = state.agreement_texts.find(kShared);
  if (text == state.agreement_texts.end()) return;
  const nlohmann::json read = nlohmann::json::parse(text->second, nullptr, /*allow_exceptions=*/false);
  if (!read.is_object() || !read.contains("policy") || !read["policy"].is_string()) return;
  check_same_policy(path, read["policy"].get<std::string>(), policy.description());
}

std::vector<ReplicaProgress> progress_in(const TrainingState& state, int replicas) {
  std::vector<ReplicaProgress> all;
  for (int r = 0; r < replicas; ++r)
    if (const auto text = state.agreement_texts.find(progress_of(r)); text != state.agreement_texts.end()) {
      const nlohmann::json read = progress_from(text->second);
      all.push_back({.steps = read.at("steps"), .samples = read.at("samples")});
    }
  if (!all.empty() && int(all.size()) != replicas) refuse("the replicas' progress", "it is missing for some replicas");
  return all;
}

PolicyState shared_policy_in(const TrainingState& state) {
  TrainingState part;
  part.agreement = state.agreement;
  part.agreement_texts = state.agreement_texts;
  return policy_of(kShared, part);
}

AgreementParts take_apart(TrainingState all, int replicas) {
  AgreementParts parts{.replicas = std::vector<TrainingState>(size_t(replicas)),
                       .shared = policy_of(kShared, all),
                       .policies = {},
                       .best = take_best(all)};
  if (!all.agreement_texts.contains("0")) return of_server(std::move(all), std::move(parts));
  for (int r = 0; r < replicas; ++r) parts.policies.push_back(policy_of(std::to_string(r), all));
  for (int r = 1; r < replicas; ++r) {
    TrainingState& own = parts.replicas[size_t(r)];
    const auto progress = all.agreement_texts.find(progress_of(r));
    own.updates = progress == all.agreement_texts.end() ? all.updates
                                                        : progress_from(progress->second).at("updates").get<int64_t>();
    for (auto& [name, tensor] : take_named(of_replica(r), all.agreement)) put(name, std::move(tensor), own);
  }
  if (!all.agreement.empty())
    refuse(fmt::format("tensor \"{}\"", all.agreement.begin()->first), "this version does not know its name");
  all.agreement_texts.clear();
  parts.replicas.front() = std::move(all);
  return parts;
}

}  // namespace trireme
