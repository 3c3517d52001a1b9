#include "plan/named.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>

#include "base/error.h"

namespace trireme {
namespace {

constexpr int kMicroBatchesPerStage = 4;  // bubble (p-1)/(m+p-1) below 20 % (METHODS: negligible from m >= 4p)
constexpr int kMaxDegree = 1'000'000;      // so that no product of degrees overflows
constexpr const char* kKnown =
    "single, data, tensor, pipeline, hybrid:tensor, hybrid:pipeline, or degrees such as \"data=2,tensor=2,pipeline=1\"";

LayerSeconds seconds_or_flops(const Model& model, const LayerSeconds& seconds) {
  if (!seconds.empty()) return seconds;
  LayerSeconds flops(model.nodes().size(), 0.0);
  for (NodeId id = model.input_count(); id < NodeId(flops.size()); ++id)
    flops[size_t(id)] = model.node(id).layer->forward_flops(model.input_shapes(id));
  return flops;
}

Degrees parse_degrees(std::string_view text) {
  Degrees degrees;
  const std::string whole(text);
  std::set<std::string_view> seen;
  for (bool more = true; more;) {
    std::string_view item = text.substr(0, text.find(','));
    more = item.size() < text.size();
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    size_t equals = item.find('=');
    std::string_view key = item.substr(0, equals), number = equals == item.npos ? "" : item.substr(equals + 1);
    int value = 0;
    auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), value);
    int* target = key == "data"            ? &degrees.data
                  : key == "tensor"        ? &degrees.tensor
                  : key == "pipeline"      ? &degrees.pipeline
                  : key == "micro_batches" ? &degrees.micro_batches
                                           : nullptr;
    if (!target || code != std::errc() || end != number.data() + number.size() || value < 1 || value > kMaxDegree)
      fail_user({"--plan " + whole, fmt::format("\"{}\"", item), "is neither a known plan nor a degree", fmt::format("known: {}", kKnown)});
    if (!seen.insert(key).second)
      fail_user({"--plan " + whole, fmt::format("\"{}\"", item), fmt::format("{} is given twice", key), "give each degree once"});
    *target = value;
  }
  return degrees;
}

Degrees degrees_of(std::string_view name, int devices) {
  Degrees d;
  if (name == "single") return d;
  if (name == "data") d.data = devices;
  else if (name == "tensor") d.tensor = devices;
  else if (name == "pipeline") d.pipeline = devices;
  else if (name == "hybrid:tensor" || name == "hybrid:pipeline") {
    if (devices < 4 || devices % 2)
      fail_user({fmt::format("strategy {}", name), fmt::format("{} devices", devices),
                 "a hybrid needs an even number of at least 4 devices", "raise --devices"});
    d.data = devices / 2;
    (name == "hybrid:tensor" ? d.tensor : d.pipeline) = 2;
  } else {
    d = parse_degrees(name);
  }
  return d;
}

void require_some_split(const Model& model, const std::vector<std::string>& splits, int degree) {
  if (degree == 1) return;
  for (NodeId id = model.input_count(); id < NodeId(splits.size()); ++id)
    if (splits[size_t(id)] != "replicate") return;
  fail_user({"plan", fmt::format("tensor degree {}", degree),
             fmt::format("divides no layer of model {}: channel, feature and class counts must be multiples of it", model.name()),
             "use another degree"});
}

}  // namespace

Plan uniform_plan(const Model& model, const Cluster& cluster, const Degrees& degrees, int64_t batch,
                  const LayerSeconds& seconds) {
  const int64_t devices = int64_t(degrees.data) * degrees.tensor * degrees.pipeline;
  if (devices != cluster.size())
    fail_user({"plan", fmt::format("data {} x tensor {} x pipeline {} = {}", degrees.data, degrees.tensor, degrees.pipeline, devices),
               fmt::format("the cluster has {} devices", cluster.size()), "make the product equal the number of devices"});
  Plan plan;
  plan.model = model.name();
  plan.model_fingerprint = model.fingerprint();
  plan.devices = cluster.size();
  plan.micro_batches = degrees.micro_batches;
  if (plan.micro_batches == 0) {
    const int64_t largest = std::max<int64_t>(1, batch / degrees.data);
    plan.micro_batches =
        degrees.pipeline == 1 ? 1 : int(std::min<int64_t>(kMicroBatchesPerStage * degrees.pipeline, largest));
  }
  const int per_stage = degrees.data * degrees.tensor;
  for (int s = 0; s < degrees.pipeline; ++s) {
    std::vector<int> workers(static_cast<size_t>(per_stage));
    std::iota(workers.begin(), workers.end(), s * per_stage);
    plan.stages.push_back(std::move(workers));
  }
  auto stage_of = balance_stages(model, degrees.pipeline, seconds_or_flops(model, seconds));
  auto splits = choose_splits(model, degrees.tensor, std::max<int64_t>(1, batch / degrees.data / plan.micro_batches));
  require_some_split(model, splits, degrees.tensor);
  for (size_t id = 0; id < model.nodes().size(); ++id)
    plan.layers.push_back({stage_of[id], degrees.data, degrees.tensor, splits[id]});
  return plan;
}

Plan named_plan(std::string_view name, const Model& model, const Cluster& cluster, int64_t batch, const LayerSeconds& seconds,
                int micro_batches) {
  Degrees degrees = degrees_of(name, cluster.size());
  if (micro_batches > 0 && degrees.micro_batches == 0 && degrees.pipeline > 1) degrees.micro_batches = micro_batches;
  Plan plan = uniform_plan(model, is_single(name) ? Cluster::uniform(1, cluster.devices.at(0).memory) : cluster, degrees, batch,
                           seconds);
  plan.name = name;
  validate(plan, model, batch, fmt::format("strategy {}", name));
  return plan;
}

std::vector<std::string> expand_strategy(std::string_view name) {
  if (name == "hybrid") return {"hybrid:tensor", "hybrid:pipeline"};
  return {std::string(name)};
}

std::vector<std::string> known_strategies() {
  return {"single", "data", "tensor", "pipeline", "hybrid:tensor", "hybrid:pipeline"};
}

bool is_single(std::string_view name) { return name == "single"; }

}  // namespace trireme
