#include "experiment/replica_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>

#include "base/memory.h"
#include "experiment/emulation.h"
#include "plan/cluster_file.h"
#include "profile/profile.h"
#include "trireme/error.h"
#include "update/registry.h"

namespace trireme {
namespace {

constexpr SampleShares kShares[] = {SampleShares::batches,   SampleShares::samples,  SampleShares::labels,
                                    SampleShares::dirichlet, SampleShares::quantity, SampleShares::features};

std::vector<std::string_view> cut_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  for (bool more = true; more;) {
    parts.push_back(text.substr(0, text.find(',')));
    more = parts.back().size() < text.size();
    text.remove_prefix(std::min(text.size(), parts.back().size() + 1));
  }
  return parts;
}

double read_share(const ConfigTable& table, const char* key, double fallback) {
  const double value = table.get_double(key, fallback, 0);
  if (!(value <= 1)) table.fail(key, "is a probability", "use 0 to 1");
  return value;
}

std::vector<Failure> read_failures(const ConfigTable& table) {
  std::vector<Failure> failures;
  for (const ConfigTable& one : table.tables("failure")) {
    Failure failure{.replica = int(std::min<int64_t>(one.require_int("worker", 0), kMaxDevices))};
    if (!one.has("at"))
      one.fail("at", "is missing", "give the time of the failure, counted from the run's beginning: \"20 s\"");
    failure.at = one.get_seconds("at", 0);
    if (one.has("back_after")) failure.back_after = one.get_seconds("back_after", 0);
    failures.push_back(failure);
  }
  return failures;
}

/// Throws a user error if the table has one of `keys`: `source` already determines how long steps take, and over which
/// links.
void refuse_beside(const ConfigTable& table, const char* source, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (table.has(key))
      table.fail(key, fmt::format("{} already determines that", source),
                 fmt::format("leave out {} or {}", key, source));
}

void read_seconds(const ConfigTable& table, const std::filesystem::path& folder, ModelledClock& clock) {
  if (table.has("cluster")) {
    refuse_beside(table, "cluster", {"step_seconds", "sample_seconds", "profile", "link"});
    clock.cluster = std::make_shared<const Cluster>(read_cluster(folder / table.require_string("cluster")));
    return;
  }
  if (table.has("profile")) {
    refuse_beside(table, "profile", {"step_seconds", "sample_seconds"});
    clock.profile = std::make_shared<const Profile>(read_profile(folder / table.require_string("profile")));
    return;
  }
  clock.step_seconds = table.get_seconds("step_seconds", 0);
  clock.sample_seconds = table.get_seconds("sample_seconds", 0);
  if (!(clock.step_seconds + clock.sample_seconds > 0))
    table.fail("step_seconds", "a step takes more than 0 seconds",
               "give its time, \"20 ms\", or the time of each sample: sample_seconds = \"0.2 ms\"");
}

/// Formats a value as TOML. JSON cannot represent a number that is not finite, but the policy must receive it, to
/// refuse it under its own name.
std::string toml_text(const nlohmann::json& value) {
  if (!value.is_number_float() || std::isfinite(value.get<double>())) return value.dump();
  return fmt::format("{}", value.get<double>());
}

ModelledClock read_clock(const ConfigTable& table, const std::filesystem::path& folder) {
  ModelledClock clock;
  read_seconds(table, folder, clock);
  clock.jitter = table.get_double("jitter", 0, 0);
  if (!(clock.jitter <= 2))
    table.fail("jitter", "is the deviation of the logarithm of a step's time", "0.1 makes steps vary by about 10 %");
  clock.straggle_probability = read_share(table, "straggle_probability", 0);
  clock.straggle_factor = table.get_double("straggle_factor", 1, 1);
  clock.link = read_link_speed(table.table("link"), {});
  if (const ConfigTable server = table.table("server_link"); !server.keys().empty())
    clock.server_link = read_link_speed(server, {});
  clock.failures = read_failures(table);
  return clock;
}

}  // namespace

const char* name_of(SampleShares shares) {
  switch (shares) {
    case SampleShares::batches: return "batches";
    case SampleShares::samples: return "samples";
    case SampleShares::labels: return "labels";
    case SampleShares::dirichlet: return "dirichlet";
    case SampleShares::quantity: return "quantity";
    case SampleShares::features: return "features";
  }
  return "";
}

ReplicaSpec read_replica_spec(const ConfigTable& update, const std::filesystem::path& folder) {
  ReplicaSpec spec;
  spec.where = update.where("");
  spec.plan = update.get_string("plan", spec.plan);
  spec.devices = int(update.get_int("plan_devices", 1, 1));
  spec.batch_per_replica = update.get_choice("batch_of", "all", {"all", "replica"}) == "replica";
  std::vector<std::string> names;
  for (SampleShares shares : kShares) names.emplace_back(name_of(shares));
  const std::string name = update.get_choice("shares", names.front(), names);
  spec.shares = kShares[size_t(std::find(names.begin(), names.end(), name) - names.begin())];
  spec.alpha = update.get_double("alpha", spec.alpha);
  if (!(spec.alpha > 0) || !std::isfinite(spec.alpha))
    update.fail("alpha", "must be positive", "0.5 makes labels uneven, 100 nearly even");
  if (update.has("feature_noise") && spec.shares != SampleShares::features)
    update.fail("feature_noise", "it belongs to shares = \"features\"", "choose these shares, or leave it out");
  spec.feature_noise = update.get_double("feature_noise", spec.feature_noise, 0);
  if (!(spec.feature_noise > 0) || !std::isfinite(spec.feature_noise))
    update.fail("feature_noise", "it is the variance of the last replica's noise, above 0", "0.1 is usual");
  if (const ConfigTable clock = update.table("virtual"); !clock.keys().empty()) spec.clock = read_clock(clock, folder);
  for (const std::string& policy : update_policy_names()) {
    const ConfigTable options = update.table(policy);
    const nlohmann::json values = options.to_json();
    for (const std::string& key : options.keys()) {
      options.has(key);  // marks the key as known; its value is read when the policy is made
      spec.options[policy].push_back(key + "=" + toml_text(values.at(key)));
      spec.places[policy + "." + key] = options.where(key);
    }
    if (!options.keys().empty())
      make_policy(policy, spec, {.replicas = kMaxDevices, .seed = 0, .plain_sgd = true});  // throws errors early
  }
  return spec;
}

bool is_update_policy(const std::string& strategy) {
  const auto names = update_policy_names();
  return std::find(names.begin(), names.end(), strategy.substr(0, strategy.find(','))) != names.end();
}

/// Returns the options that the strategy states, and for the others those of its policy's table.
nlohmann::json options_of(const std::string& strategy, const ReplicaSpec& spec) {
  const std::vector<std::string_view> parts = cut_at_commas(strategy);
  ConfigTable given = ConfigTable::from_string("");
  if (const auto options = spec.options.find(std::string(parts.front())); options != spec.options.end())
    for (const std::string& option : options->second) given.override_with(option);
  std::set<std::string_view> keys;
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::string_view key = parts[i].substr(0, parts[i].find('='));
    if (!keys.insert(key).second)
      fail_user(
          {fmt::format("strategy \"{}\"", strategy), std::string(key), "is given twice", "leave one of them out"});
    given.override_with(parts[i], fmt::format("strategy \"{}\"", strategy));
  }
  return given.to_json();
}

std::unique_ptr<UpdatePolicy> make_policy(const std::string& strategy, const ReplicaSpec& spec, const RunFacts& facts) {
  // parsed again, so that messages name the strategy and not flags that were not given
  std::string text = fmt::format("policy = \"{}\"\n", cut_at_commas(strategy).front());
  const nlohmann::json values = options_of(strategy, spec);
  for (const auto& [key, value] : values.items()) text += fmt::format("{} = {}\n", key, toml_text(value));
  const ConfigTable table =
      ConfigTable::from_string(text, fmt::format("strategy \"{}\"", strategy), /*has_lines=*/false);
  auto policy = make_update_policy(table, facts);
  table.finish();
  return policy;
}

std::string place_of_option(const std::string& strategy, const ReplicaSpec& spec, const std::string& key) {
  const std::vector<std::string_view> parts = cut_at_commas(strategy);
  const bool is_in_text = std::any_of(parts.begin() + 1, parts.end(),
                                      [&](std::string_view part) { return part.substr(0, part.find('=')) == key; });
  const auto place = spec.places.find(fmt::format("{}.{}", parts.front(), key));
  if (is_in_text || place == spec.places.end()) return fmt::format("strategy \"{}\": {}", strategy, key);
  return place->second;
}

std::string policy_text(const std::string& strategy, const ReplicaSpec& spec) {
  std::string text(cut_at_commas(strategy).front());
  const nlohmann::json values = options_of(strategy, spec);
  for (const auto& [key, value] : values.items())
    text += fmt::format(",{}={}", key, value.is_string() ? value.get<std::string>() : toml_text(value));
  return text;
}

}  // namespace trireme
