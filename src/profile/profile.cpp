#include "profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_file.h"
#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr int kVersion = 2;
constexpr const char* kFormat = "trireme profile";

double quantile(const std::vector<double>& sorted, double share) {
  const double position = share * double(sorted.size() - 1);
  const auto below = size_t(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - double(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

// Each struct is a JSON object of its fields, except Spread (an array) and LayerMemory (optional fields).
void to_json(json& j, const Spread& s) { j = {s.median, s.p10, s.p90}; }
void from_json(const json& j, Spread& s) { s = {j.at(0).get<double>(), j.at(1).get<double>(), j.at(2).get<double>()}; }

void to_json(json& j, const LayerMemory& m) {
  j = {{"output", m.output},
       {"output_shares_input", m.output_shares_input},
       {"saved", m.saved},
       {"keeps_input", m.keeps_input},
       {"keeps_output", m.keeps_output},
       {"forward_workspace", m.forward_workspace},
       {"backward_workspace", m.backward_workspace},
       {"input_gradients", m.input_gradients},
       {"defers_gradient", m.defers_gradient}};
  if (m.parameter_workspace) j["parameter_workspace"] = *m.parameter_workspace;
  if (m.input_workspace) j["input_workspace"] = *m.input_workspace;
  if (m.weight_workspace) j["weight_workspace"] = *m.weight_workspace;
  if (m.deferred) j["deferred"] = *m.deferred;
}

void from_json(const json& j, LayerMemory& m) {
  m.output = j.at("output");
  m.output_shares_input = j.at("output_shares_input");
  m.saved = j.at("saved");
  m.keeps_input = j.at("keeps_input").get<std::vector<bool>>();
  m.keeps_output = j.at("keeps_output");
  m.forward_workspace = j.at("forward_workspace");
  m.backward_workspace = j.at("backward_workspace");
  m.input_gradients = j.at("input_gradients").get<std::vector<int64_t>>();
  m.defers_gradient =
      j.value("defers_gradient", true);  // older files have no measurements of split backwards and lack this field
  if (j.contains("parameter_workspace")) m.parameter_workspace = j.at("parameter_workspace").get<int64_t>();
  if (j.contains("input_workspace")) m.input_workspace = j.at("input_workspace").get<int64_t>();
  if (j.contains("weight_workspace")) m.weight_workspace = j.at("weight_workspace").get<int64_t>();
  if (j.contains("deferred")) m.deferred = j.at("deferred").get<int64_t>();
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LayerMeasurement, forward, backward, backward_input, backward_weight, crowding, runs,
                                   memory)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TransferLine, latency, bandwidth, worst, points)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GroupMeasurement, workers, lines, barrier)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LinkMeasurement, groups, hand_over, wake_up, compute_slowdown, transfer_slowdown)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Fingerprint, cpu, cores, memory, libtorch, onednn, blas, malloc, threads, gpus, gpu)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(UpdateMeasurement, optimizer, contributors, fixed, per_element, crowding)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(DeviceMeasurement, memory, flops, library_memory, core_seconds,
                                                memory_speed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepFactors, seconds, crowding, sharing)

namespace {

Profile parsed(const json& j) {
  Profile profile;
  for (const json& layer : j.at("layers"))
    for (const json& size : layer.at("sizes"))
      profile.layers[layer.at("key").get<std::string>()][size.at("samples").get<int64_t>()] =
          size.get<LayerMeasurement>();
  json machine = j.at("machine");
  if (!machine.contains("gpus")) machine.update({{"gpus", 0}, {"gpu", ""}});  // older files are of cores
  machine.get_to(profile.machine);
  j.at("links").get_to(profile.links);
  j.at("updates").get_to(profile.updates);
  j.at("device").get_to(profile.device);
  if (j.contains("step_factors")) j.at("step_factors").get_to(profile.step_factors);
  return profile;
}

}  // namespace

Spread spread_of(std::vector<double> seconds) {
  check_internal(!seconds.empty(), "a spread has at least one measurement");
  std::sort(seconds.begin(), seconds.end());
  return {quantile(seconds, 0.5), quantile(seconds, 0.1), quantile(seconds, 0.9)};
}

std::string step_factors_name(const std::string& model, int64_t weights, Precision precision) {
  return fmt::format("{}, {} weights, {}", model, weights, name_of(precision));
}

std::string redistribution_line(RedistributionKind kind) { return std::string("redistribute ") + name_of(kind); }

double TransferLine::seconds(double bytes) const {
  if (points.size() < 2) return on_line(bytes);
  if (bytes <= points.front().first) return points.front().second;
  const auto after = std::lower_bound(points.begin(), points.end() - 1, bytes,
                                      [](const auto& point, double b) { return point.first < b; });
  const auto& [x1, y1] = *after;
  const auto& [x0, y0] = *std::prev(after);
  // A flat last segment (noise) must not make additional bytes free.
  const double slope = bytes > x1 ? std::max((y1 - y0) / (x1 - x0), 0.5 * y1 / x1) : (y1 - y0) / (x1 - x0);
  return y1 + (bytes - x1) * slope;
}

const LayerMeasurement* Profile::find(const std::string& key, int64_t samples) const {
  const auto layer = layers.find(key);
  if (layer == layers.end()) return nullptr;
  const auto size = layer->second.find(samples);
  return size == layer->second.end() ? nullptr : &size->second;
}

json profile_to_json(const Profile& profile) {
  json layers = json::array();
  for (const auto& [key, sizes] : profile.layers) {
    json measured = json::array();
    for (const auto& [samples, measurement] : sizes) {
      json size = measurement;
      size["samples"] = samples;
      measured.push_back(std::move(size));
    }
    layers.push_back({{"key", key}, {"sizes", std::move(measured)}});
  }
  return {{"format", kFormat},          {"version", kVersion},         {"step_factors", profile.step_factors},
          {"machine", profile.machine}, {"layers", std::move(layers)}, {"links", profile.links},
          {"updates", profile.updates}, {"device", profile.device}};
}

Profile profile_from_json(const json& j, const std::string& where) {
  if (!j.is_object() || j.value("format", json()) != kFormat)
    fail_user({where, "is not a profile", fmt::format("it has no \"format\": \"{}\"", kFormat),
               "create one: trireme profile EXPERIMENT"});
  if (j.value("version", json()) != kVersion)
    fail_user({where, fmt::format("is a profile of version {}", j.value("version", json()).dump()),
               fmt::format("this program reads version {}", kVersion), "measure again: trireme profile EXPERIMENT"});
  try {
    Profile profile = parsed(j);
    if (profile.machine.cores < 1)
      fail_user({where, "is a damaged profile", fmt::format("machine.cores is {}", profile.machine.cores),
                 "measure again: trireme profile EXPERIMENT"});
    return profile;
  } catch (const json::exception& error) {
    fail_user({where, "is a damaged profile", first_line(error), "measure again: trireme profile EXPERIMENT"});
  }
}

Profile read_profile(const std::filesystem::path& file) {
  return profile_from_json(read_json_file(file), file.string());
}

void write_profile(const Profile& profile, const std::filesystem::path& file) {
  write_json_file(file, profile_to_json(profile));
}

}  // namespace trireme
