#include "train/experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/config.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

namespace trireme {
namespace {

constexpr int kMaxThreads = 1024;  // of one worker

/// "2" for every worker, or "[2, 1]" one by one.
void read_threads(const ConfigTable& file, Experiment& e) {
  constexpr const char* kKey = "device_threads";
  const auto checked = [&](int64_t n) {
    if (n < 1 || n > kMaxThreads) file.fail(kKey, fmt::format("{} threads", n), fmt::format("use 1 to {}", kMaxThreads));
    return int(n);
  };
  const nlohmann::json values = file.to_json();
  const bool is_list = values.contains(kKey) && !values.at(kKey).is_number();
  if (!is_list) {
    e.threads = checked(file.get_int(kKey, 1));
    return;
  }
  for (int64_t n : file.get_ints(kKey, {})) e.device_threads.push_back(checked(n));
  if (e.device_threads.empty()) file.fail(kKey, "no number of threads", "write 1, or one number per worker: [2, 1]");
}

/// What the devices are: how many, how fast, how large.
void read_devices(const ConfigTable& file, Experiment& e) {
  for (int64_t n : file.get_ints("devices", {2})) {
    if (n < 1 || n > kMaxDevices) file.fail("devices", fmt::format("{} devices", n), fmt::format("use 1 to {}", kMaxDevices));
    e.devices.push_back(int(n));
  }
  if (e.devices.empty()) file.fail("devices", "no number of workers", "name at least one, for example [2]");
  e.device_memory = file.get_bytes("device_memory", 0);
  read_threads(file, e);
  e.device_speeds = file.get_doubles("device_speeds", {});
  for (double speed : e.device_speeds)
    if (!std::isfinite(speed) || speed <= 0)
      file.fail("device_speeds", "speeds must be positive", "write [1.0, 0.5] for a second device of half the speed");
  e.private_replicas = file.get_choice("replicas", "shared", {"shared", "private"}) == "private";
}

void read_training(const ConfigTable& file, Experiment& e) {
  e.name = file.get_string("name", e.file.stem().string());
  e.seed = uint64_t(file.get_int("seed", 1, 0));
  e.batch = file.get_int("batch", 128, 1);
  e.length = file.get_length("length", e.length);
  e.evaluate_every = file.get_length("evaluate_every", e.evaluate_every);
  if (file.has("target_accuracy")) {
    e.target_accuracy = file.get_double("target_accuracy", 0);
    if (*e.target_accuracy <= 0 || *e.target_accuracy > 1)
      file.fail("target_accuracy", "is a share of correct answers, between 0 and 1", "write 0.98 for 98 %");
  }
  e.precision = parse_precision(file.get_choice("precision", "fp32", {"fp32", "bf16", "fp64"}), file.where("precision"));
  const std::string batch_norm = file.get_choice("batch_norm", "local", {"local", "global", "deferred"});
  e.batch_norm = batch_norm == "global"     ? BatchNormScope::global
                 : batch_norm == "deferred" ? BatchNormScope::deferred
                                            : BatchNormScope::local;
  e.frozen = file.get_strings("frozen", {});
  for (const std::string& name : e.frozen) {
    if (name.empty()) file.fail("frozen", "a name is empty", "name parameters, for example [\"conv1.weight\", \"layer1.*\"]");
    if (name.find('*') < name.size() - 1)
      file.fail("frozen", fmt::format("\"{}\": a * may stand at the end only", name), "write for example \"layer1.*\"");
  }
  e.strategies = file.get_strings("strategies", {"single", "data", "tensor", "pipeline", "hybrid"});
  if (e.strategies.empty()) file.fail("strategies", "nothing to compare", "name at least one, for example [\"data\"]");
  e.time_limit = file.get_seconds("time_limit", 0);
  const int64_t micro_batches = file.get_int("micro_batches", 0, 0);
  if (micro_batches > e.batch) file.fail("micro_batches", fmt::format("batch = {} has fewer samples", e.batch), "use fewer");
  e.micro_batches = int(micro_batches);
}

void read_optimizer(const ConfigTable& table, Experiment& e) {
  OptimizerConfig& o = e.optimizer;
  o.kind = parse_optimizer(table.get_choice("kind", "sgd", {"sgd", "adam", "adamw"}), table.where("kind"));
  const bool sgd = o.kind == OptimizerConfig::Kind::sgd;
  o.learning_rate = table.get_double("learning_rate", sgd ? 0.05 : 1e-3, 0);
  if (!std::isfinite(o.learning_rate)) table.fail("learning_rate", "must be finite", "0.1 is a usual start for sgd, 0.001 for adam");
  if (sgd) {
    o.momentum = table.get_double("momentum", 0.9, 0);
    o.nesterov = table.get_bool("nesterov", false);
    if (o.nesterov && o.momentum == 0) table.fail("nesterov", "needs momentum", "set momentum or drop nesterov");
  } else {
    o.beta1 = table.get_double("beta1", 0.9, 0);
    o.beta2 = table.get_double("beta2", 0.999, 0);
    o.epsilon = table.get_double("epsilon", 1e-8, 0);
    for (const auto& [key, beta] : {std::pair{"beta1", o.beta1}, std::pair{"beta2", o.beta2}})
      if (beta >= 1) table.fail(key, "must be below 1", "0.9 and 0.999 are usual");
  }
  o.weight_decay = table.get_double("weight_decay", 0, 0);
  e.clip_norm = table.get_double("clip_norm", 0, 0);
  e.schedule.kind = table.get_choice("schedule", "constant", {"constant", "cosine"}) == "cosine"
                        ? LearningRateSchedule::Kind::cosine
                        : LearningRateSchedule::Kind::constant;
  e.schedule.warmup = table.get_length("warmup", e.schedule.warmup);
}

/// Names are checked here, where file and line are known.
void read_model(const ConfigTable& model, Experiment& e) {
  model.require_string("name");
  e.model_name = model.get_choice("name", "", model_names());
  const auto known = model_options(e.model_name);
  ConfigTable options = model.table("options");
  for (const auto& option : known) options.has(option.first);  // so that --set model.width is told where width belongs
  for (const std::string& key : options.keys()) {
    e.model_options[key] = options.get_double(key, 0);
    if (known.contains(key)) continue;
    std::vector<std::string> names;
    for (const auto& option : known) names.push_back(option.first);
    options.fail(key, fmt::format("model {} has no such option", e.model_name),
                 names.empty() ? "it has none: remove it" : fmt::format("known: {}", join(names)));
  }
}

void read_data(const ConfigTable& data, Experiment& e) {
  data.require_string("name");
  e.data.name = data.get_choice("name", "", data_names());
  e.data.augment = data.get_bool("augment", false);
  if (e.data.augment && e.data.name != "cifar10")
    data.fail("augment", e.data.name + " has no standard augmentation", "set augment = false");
  e.data.sequence = data.get_int("sequence", 0, 0);
  if (e.data.sequence > 0 && !is_text(e.data.name)) data.fail("sequence", e.data.name + " is no text", "leave it out");
  e.data.train_limit = data.get_int("train_limit", 0, 0);
  e.data.test_limit = data.get_int("test_limit", 0, 0);
}

}  // namespace

Experiment read_experiment(const std::filesystem::path& path, const ExperimentOverrides& overrides) {
  ConfigTable file = ConfigTable::from_file(path);
  for (const std::string& assignment : overrides.set) file.override_with(assignment);
  Experiment e;
  e.file = path;
  read_training(file, e);
  read_devices(file, e);
  read_model(file.table("model"), e);
  read_data(file.table("data"), e);
  if (reads_tokens(e.model_name) != is_text(e.data.name))
    file.fail("model.name", fmt::format("data set {} holds {}", e.data.name, is_text(e.data.name) ? "text" : "no text"),
              is_text(e.data.name) ? "choose a language model" : "choose another data set, for example generated-text");
  read_optimizer(file.table("optimizer"), e);
  file.finish();

  if (overrides.seed) e.seed = *overrides.seed;
  if (overrides.steps) e.length = {double(*overrides.steps), Length::Unit::steps};
  if (!overrides.strategies.empty()) e.strategies = overrides.strategies;
  if (!overrides.devices.empty()) e.devices = overrides.devices;
  e.data.data_dir = overrides.data_dir;
  e.data.seed = e.seed;
  return e;
}

namespace {

/// The value of worker `worker`, of a list that must be long enough for `devices`.
template <class Value>
const Value& of_worker(const std::vector<Value>& list, int worker, int devices, const Experiment& e, const char* key) {
  if (list.size() < size_t(devices))
    fail_user({e.file.string(), fmt::format("{} lists {} of {} devices", key, list.size(), devices), "each needs a value",
               "list more or compare on fewer devices"});
  return list[size_t(worker)];
}

}  // namespace

std::vector<int> threads_of(const Experiment& experiment, int devices) {
  const auto& list = experiment.device_threads;
  std::vector<int> threads;
  for (int d = 0; d < devices; ++d)
    threads.push_back(list.empty() ? experiment.threads : of_worker(list, d, devices, experiment, "device_threads"));
  return threads;
}

Cluster cluster_of(const Experiment& experiment, int devices) {
  Cluster cluster = Cluster::uniform(devices, experiment.device_memory);
  const std::vector<int> threads = threads_of(experiment, devices);
  for (int d = 0; d < devices; ++d)
    cluster.devices[size_t(d)].speed = experiment.device_speeds.empty()
                                           ? double(threads[size_t(d)])
                                           : of_worker(experiment.device_speeds, d, devices, experiment, "device_speeds");
  return cluster;
}

CompileOptions compile_options(const Experiment& experiment, bool training) {
  return {.training = training, .clip_gradients = experiment.clip_norm > 0,
          .mixed_precision = experiment.precision == Precision::bf16, .batch_norm = experiment.batch_norm,
          .private_replicas = experiment.private_replicas, .frozen = experiment.frozen};
}

Model build_model(const Experiment& experiment, const TaskData& data) {
  return make_model({experiment.model_name, data.train->sample_shape(), data.train->classes(), experiment.model_options});
}

int64_t steps_of(const Length& length, int64_t steps_per_epoch) {
  double steps = length.unit == Length::Unit::steps ? length.count : length.count * double(steps_per_epoch);
  return std::max<int64_t>(1, std::llround(steps));
}

double learning_rate_at(const Experiment& e, int64_t step, int64_t total, int64_t steps_per_epoch) {
  const double rate = e.optimizer.learning_rate;
  const int64_t warmup = e.schedule.warmup.count > 0 ? steps_of(e.schedule.warmup, steps_per_epoch) : 0;
  if (step < warmup) return rate * double(step + 1) / double(warmup);
  if (e.schedule.kind == LearningRateSchedule::Kind::constant) return rate;
  const double progress = double(step - warmup) / double(std::max<int64_t>(1, total - warmup));
  return rate * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

}  // namespace trireme
