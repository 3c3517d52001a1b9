#include "experiment/read_experiment.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "base/counted.h"
#include "base/text.h"
#include "base/text_parts.h"
#include "data/text/repadded_set.h"
#include "experiment/initial_weights.h"
#include "experiment/read_data.h"
#include "experiment/read_emulation.h"
#include "experiment/read_optimizer.h"
#include "experiment/read_phases.h"
#include "metrics/metrics.h"
#include "plan/strategies.h"
#include "trireme/config.h"
#include "trireme/error.h"
#include "trireme/plan.h"
#include "zoo/imported.h"
#include "zoo/token_builder.h"

namespace trireme {
namespace {

constexpr int kMaxThreads = 1024;  // threads of one worker
constexpr int64_t kWidestBeam = 1024;

/// Reads the number of "32 per device". Errors (user): any other text.
int64_t read_batch_per_device(const ConfigTable& file) {
  const std::string text = file.get_string("batch", "");
  std::istringstream words(text);
  std::string number, per, device, more;
  words >> number >> per >> device >> more;
  const std::optional<int64_t> samples = number_in<int64_t>(number);
  if (!samples || per != "per" || device != "device" || !more.empty())
    file.fail("batch", fmt::format("\"{}\" is neither a whole number nor one per device", text),
              "write 128 for the global batch, or \"32 per device\"");
  if (*samples < 1) file.fail("batch", fmt::format("{} per device", *samples), "use at least 1");
  return *samples;
}

/// Reads 128, the global batch, or "32 per device".
void read_batch(const ConfigTable& file, Experiment& e) {
  const nlohmann::json values = file.to_json();
  if (values.contains("batch") && values.at("batch").is_string())
    e.batch = e.batch_per_device = read_batch_per_device(file);
  else e.batch = file.get_int("batch", 128, 1);
  if (e.batch > kMostSamples)
    file.fail("batch", "no batch has so many samples", fmt::format("use at most {}", kMostSamples));
}

/// Reads "2" for every worker, or "[2, 1]" one by one.
void read_threads(const ConfigTable& file, Experiment& e) {
  constexpr const char* kKey = "device_threads";
  const auto checked = [&](int64_t n) {
    if (n < 1 || n > kMaxThreads)
      file.fail(kKey, fmt::format("{} threads", n), fmt::format("use 1 to {}", kMaxThreads));
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

/// Reads the devices: their numbers, speeds and memory.
void read_devices(const ConfigTable& file, Experiment& e) {
  for (int64_t n : file.get_ints("devices", {2})) {
    if (n < 1 || n > kMaxPlanDevices)
      file.fail("devices", counted(n, "device"), fmt::format("use 1 to {}", kMaxPlanDevices));
    e.devices.push_back(int(n));
  }
  if (e.devices.empty()) file.fail("devices", "no number of workers", "name at least one, for example [2]");
  e.device = file.get_choice("device", "cpu", {"cpu", "cuda"}) == "cuda" ? c10::DeviceType::CUDA : c10::DeviceType::CPU;
  e.step_graph = file.get_bool("step_graph", true);
  e.copy_ahead = file.get_bool("copy_ahead", false);
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
  read_batch(file, e);
  e.length = file.get_length("length", e.length);
  e.evaluate_every = file.get_length("evaluate_every", e.evaluate_every);
  if (file.has("target_accuracy"))
    file.fail("target_accuracy", "is now called target",
              "write target = 0.98: it is a value of the task's main metric");
  if (file.has("target")) {
    e.target = file.get_double("target", 0);
    if (!std::isfinite(*e.target)) file.fail("target", "must be finite", "write 0.98 for an accuracy of 98 %");
  }
  e.early_stopping = read_early_stopping(file.table("early_stopping"));
  e.early_stopping.at_target = file.get_bool("stop_at_target", false);
  if (e.early_stopping.at_target) {
    const bool phase_may_have_one = !e.phases.empty() && e.phase == 0;
    if (!e.target && !phase_may_have_one)
      file.fail("stop_at_target", "there is no target", "say which: target = 0.98 for an accuracy of 98 %");
    if (e.early_stopping.where.empty()) e.early_stopping.where = file.where("stop_at_target");
  }
  // A phase hands on its whole state, moments included, which is that of its end.
  if (e.early_stopping.restore_best && !e.phases.empty() && e.phase < int(e.phases.size()))
    file.table("early_stopping")
        .fail("restore_best",
              "a phase begins with the state at the end of the phase before it, not with its best weights",
              "write it in the last [[phase]]: early_stopping.restore_best = true");
  e.label_smoothing = file.get_double("label_smoothing", 0, 0);
  if (!(e.label_smoothing < 1)) file.fail("label_smoothing", "is a share of the target, below 1", "0.1 is usual");
  e.precision =
      parse_precision(file.get_choice("precision", "fp32", {"fp32", "bf16", "fp64"}), file.where("precision"));
  const std::string batch_norm = file.get_choice("batch_norm", "local", {"local", "global", "deferred"});
  e.batch_norm = batch_norm == "global"     ? BatchNormScope::global
                 : batch_norm == "deferred" ? BatchNormScope::deferred
                                            : BatchNormScope::local;
  e.frozen = file.get_strings("frozen", {});
  for (const std::string& name : e.frozen) {
    if (name.empty())
      file.fail("frozen", "a name is empty", "name parameters, for example [\"conv1.weight\", \"layer1.*\"]");
    if (name.find('*') < name.size() - 1)
      file.fail("frozen", fmt::format("\"{}\": a * is allowed only at the end", name),
                "write for example \"layer1.*\"");
  }
  e.strategies = file.get_strings("strategies", compared_strategies());
  if (e.strategies.empty()) file.fail("strategies", "nothing to compare", "name at least one, for example [\"data\"]");
  e.time_limit = file.get_seconds("time_limit", 0);
  e.noise_scale = file.get_bool("noise_scale", false);
  e.gradient_norm = file.get_bool("gradient_norm", false);
  if (file.has("save_weights")) e.save_weights = file.get_bool("save_weights", true);
  const int64_t micro_batches = file.get_int("micro_batches", 0, 0);
  if (micro_batches > e.batch && e.batch_per_device == 0)  // with_batch_on() checks it for a row
    file.fail("micro_batches", fmt::format("batch = {} has fewer samples", e.batch), "use fewer");
  e.micro_batches = int(micro_batches);
}

/// Reads the options of a zoo model; they are numbers.
void read_model_options(const ConfigTable& model, Experiment& e) {
  const auto known = model_options(e.model_name);
  ConfigTable options = model.table("options");
  // Marks the options as known, so that an error about --set model.width says where width belongs.
  for (const auto& option : known) options.has(option.first);
  for (const std::string& key : options.keys()) {
    e.model_options[key] = options.get_double(key, 0);
    if (known.contains(key)) continue;
    std::vector<std::string> names;
    for (const auto& option : known) names.push_back(option.first);
    options.fail(key, fmt::format("model {} has no such option", e.model_name),
                 names.empty() ? "it has none: remove it" : fmt::format("known: {}", join(names)));
  }
}

/// Reads a model's file. Its path counts from the experiment's folder, like paths of data.
void read_model_file(const ConfigTable& table, const char* key, Experiment& e) {
  const std::filesystem::path written = table.get_string(key, "");
  e.model_file = e.file.parent_path() / written;
  e.model_name = written.filename();
  e.model_where = table.where(key);
  std::error_code ignored;
  const auto type = std::filesystem::status(e.model_file, ignored).type();
  if (type == std::filesystem::file_type::directory)
    table.fail(key, fmt::format("{} is a folder", e.model_file.string()),
               "name a file in it; in Python: torch.jit.script(module).save(\"model.pt\")");
  if (type != std::filesystem::file_type::regular)
    table.fail(
        key, fmt::format("there is no file {}", e.model_file.string()),
        "relative paths count from the experiment's folder; in Python: torch.jit.script(module).save(\"model.pt\")");
}

/// `model = "resnet18"` and `model = "own.pt"` are short for a table with that name. Names are checked here, where file
/// and line are known.
void read_model(const ConfigTable& file, Experiment& e) {
  const nlohmann::json all = file.to_json();
  const bool is_short = all.contains("model") && all.at("model").is_string();
  const ConfigTable table = is_short ? file : file.table("model");
  const char* key = is_short ? "model" : "name";
  const std::string name = table.require_string(key);
  if (!is_short) e.initial_weights = read_initial_weights(table, e.file.parent_path());
  if (names_script_file(name)) {
    read_model_file(table, key, e);
    if (!is_short && table.has("options")) table.fail("options", "a model in a file has none", "leave them out");
    return;
  }
  e.model_name = table.get_choice(key, "", model_names());
  e.model_where = table.where(key);
  if (!is_short) read_model_options(table, e);
}

void read_loading(const ConfigTable& data, Experiment& e) {
  e.pad_to_multiple_of = data.get_int("pad_to_multiple_of", 0, 0);
  if (!data.has("workers")) return;
  const int64_t threads = data.get_int("workers", 0, 0);
  if (threads > kMaxThreads)
    data.fail("workers", fmt::format("{} threads", threads), fmt::format("use 0 to {}", kMaxThreads));
  e.loading_threads = int(threads);
}

void read_translation(const ConfigTable& table, Experiment& e) {
  e.beam = table.get_int("beam", e.beam, 1);
  if (e.beam > kWidestBeam)
    table.fail("beam", "the beam is too wide", fmt::format("use 1 to {}, 4 is usual", kWidestBeam));
  e.length_penalty = table.get_double("length_penalty", e.length_penalty, 0);
  if (!std::isfinite(e.length_penalty))
    table.fail("length_penalty", "must be finite", "0.6 is usual; 0 favours short sentences");
}

void read_price(const ConfigTable& table, Experiment& e) {
  e.currency = table.get_string("currency", "USD");
  e.price_note = table.get_string("note", "");
  if (!table.has("per_hour")) {
    if (!table.keys().empty())
      table.fail("per_hour", "is missing", "say what an hour of this machine costs, for example 0.34");
    return;
  }
  e.price_per_hour = table.get_double("per_hour", 0);
  if (!std::isfinite(e.price_per_hour) || e.price_per_hour <= 0)
    table.fail("per_hour", "must be positive and finite", "leave it out if it is not known");
}

/// All but the model and the data. `folder`: relative paths count from it.
void read_all_but_subject(const ConfigTable& file, const std::filesystem::path& folder, Experiment& e) {
  read_training(file, e);
  read_devices(file, e);
  read_emulation(file, e);
  e.replicas = read_replica_spec(file.table("update"), folder);
  if (e.replicas.clock && e.replicas.clock->cluster && !e.device_speeds.empty())
    file.fail("device_speeds", "the devices are those of [update.virtual] cluster", "leave out one of the two");
  e.adapt = file.get_bool("adapt", false);
  e.elastic = file.get_bool("elastic", false);
  read_translation(file.table("translation"), e);
  read_price(file.table("price"), e);
  e.checkpoint = read_checkpoint_spec(file.table("checkpoint"));
  const OptimizerSettings settings = read_optimizer(file.table("optimizer"));
  e.optimizer = settings.optimizer;
  e.schedule = settings.schedule;
  e.clip_norm = settings.clip_norm;
}

}  // namespace

Experiment read_experiment(const std::filesystem::path& path, const ExperimentOverrides& overrides) {
  ConfigTable file = ConfigTable::from_file(path);
  file.allow_set();
  file.allow_short_form("model", "name");
  const std::vector<PhaseSpec> phases = read_phases(file);
  change_to_phase(overrides.phase, phases, file);
  for (const std::string& assignment : overrides.set) {
    refuse_phase_as_key(assignment);
    file.override_with(assignment);
  }
  if (overrides.device) file.override_with("device=" + *overrides.device, "--device " + *overrides.device);
  Experiment e;
  e.file = path;
  e.keys = file;
  e.phases = phases;
  e.phase = overrides.phase;
  read_all_but_subject(file, path.parent_path(), e);
  read_model(file, e);
  e.data = read_data(file.table("data"), path.parent_path());
  if (const auto own = e.model_options.find(kVocabularyOption.name); own != e.model_options.end())
    e.data.model_vocabulary = int64_t(own->second);
  read_loading(file.table("data"), e);
  file.finish();

  // Includes the file's numbers, because a single row of the file may be run with a smaller number.
  std::vector<int> numbers = e.devices;
  numbers.insert(numbers.end(), overrides.devices.begin(), overrides.devices.end());
  check_emulation(e, *std::max_element(numbers.begin(), numbers.end()));

  if (overrides.seed) e.seed = *overrides.seed;
  e.steps_flag = overrides.steps;
  if (overrides.steps) e.length = {double(*overrides.steps), Length::Unit::steps};
  if (!overrides.strategies.empty()) e.strategies = overrides.strategies;
  if (!overrides.devices.empty()) e.devices = overrides.devices;
  e.data.data_dir = overrides.data_dir;
  e.data.seed = e.seed;
  complete_phase(e);
  return e;
}

Experiment read_settings(const std::string& settings, const std::string& model_name) {
  const ConfigTable table = ConfigTable::from_string(settings, "settings");
  for (const char* key : {"model", "data"})
    if (table.has(key)) table.fail(key, "the model and the data are given by the program", "leave it out");
  Experiment e;
  e.file = model_name;
  e.keys = table;
  read_all_but_subject(table, {}, e);
  if (!table.has("name")) e.name = model_name;
  e.model_name = model_name;
  table.finish();
  check_emulation(e, *std::max_element(e.devices.begin(), e.devices.end()));
  e.data.seed = e.seed;
  return e;
}

}  // namespace trireme
