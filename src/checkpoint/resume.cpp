#include "checkpoint/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/counted.h"
#include "base/text.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/data_fingerprint.h"
#include "experiment/batches.h"
#include "experiment/initial_weights.h"
#include "experiment/make_plan.h"
#include "program/compile.h"
#include "program/graph.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// Settings that must not change: with another value, the checkpoint's step, samples or tensors would mean something
/// else.
constexpr std::array<std::string_view, 10> kFixed = {
    "seed",         "batch",      "data.name",         "training samples",
    "numbers",      "optimizer",  "optimizer.tensors", "data.pad_to_multiple_of",
    kSharesSetting, kAlphaSetting};

/// Settings of which only this matters to the state: whether they are 0. They decide which state tensors the optimizer
/// has; the number of tensors does not tell momentum from averaged weights.
constexpr std::array<std::string_view, 3> kOfStateTensors = {"optimizer.momentum", "optimizer.centered",
                                                             "optimizer.ema"};

/// Followed by an option's name. An option may change what the model computes and leave its layers and shapes as they
/// are, as attention's heads do; only the share of values that dropout leaves out may change.
constexpr std::string_view kModelOption = "model.options.", kDropoutOption = "model.options.probability";

template <size_t n>
bool contains(const std::array<std::string_view, n>& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

/// True if a checkpoint with the setting `written` cannot be resumed with `now`, which differs.
bool must_match(std::string_view key, const std::string& written, const std::string& now) {
  if (contains(kOfStateTensors, key)) return (written == "0") != (now == "0");
  return contains(kFixed, key) || (key.starts_with(kModelOption) && key != kDropoutOption);
}

std::string text_of(const Length& length) {
  return fmt::format("{:g} {}", length.count, length.unit == Length::Unit::steps ? "steps" : "epochs");
}

std::string text_of(const LearningRateSchedule& s) {
  std::vector<std::string> at;
  for (const Length& length : s.decay_at) at.push_back(text_of(length));
  return fmt::format("{}, warm-up {}, reference batch {}, factor {}, every {}, at [{}], minimum {}, power {}",
                     name_of(s.kind), text_of(s.warmup), s.reference_batch, s.decay_factor, text_of(s.decay_every),
                     join(at), s.minimum, s.power);
}

[[noreturn]] void fail_setting(const fs::path& checkpoint, const std::string& key, const std::string& written,
                               const std::string& now) {
  fail_user({.where = checkpoint.string(),
             .what = fmt::format("{} = {}", key, written),
             .why = fmt::format("the experiment has {}", now),
             .next = "resume with the checkpoint's setting, or start a new run with its files as model.weights"});
}

/// Errors (user): the training set has other values than the one with the fingerprint `written`.
void check_data(const fs::path& checkpoint, const std::string& written, const Dataset& set) {
  const std::string now = data_fingerprint(set);
  if (!is_same_data(written, now))
    fail_user(
        {.where = checkpoint.string(),
         .what = "the training data have changed",
         .why = fmt::format("the checkpoint's fingerprint is \"{}\", that of the data now is \"{}\"", written, now),
         .next = "resume with the checkpoint's files and [data], or start a new run with its files as "
                 "model.weights"});
}

/// Returns the damage in one line; empty if every byte is as it was written.
std::string damage_of(const FoundCheckpoint& found) {
  if (!found.index) return found.damage;
  try {
    verify_checkpoint(found.path);
    return "";
  } catch (const Error& error) {
    return damage_in(error);
  }
}

/// Returns the newest checkpoint that can be read. Newer ones that cannot be read are listed in `notices`.
Resumption newest(const fs::path& folder, const Model& model, ModelMatch match) {
  std::vector<std::string> damaged;
  const std::vector<FoundCheckpoint> found = find_checkpoints(folder);
  for (auto entry = found.rbegin(); entry != found.rend(); ++entry) {
    if (const std::string damage = damage_of(*entry); !damage.empty()) {
      damaged.push_back(damage);
      continue;
    }
    Resumption resumption{.checkpoint = read_checkpoint(entry->path, model, match), .path = entry->path};
    for (const std::string& damage : damaged)
      resumption.notices.push_back(fmt::format("damaged, so the run {} {} instead: {}",
                                               match == ModelMatch::all ? "resumes from" : "begins with",
                                               entry->path.filename().string(), damage));
    return resumption;
  }
  if (damaged.empty())
    fail_user({.where = folder.string(),
               .what = "no checkpoint",
               .why = "the run ended before it wrote one",
               .next = "start a new run, without --resume"});
  fail_user({.where = folder.string(),
             .what = fmt::format("none of {} checkpoints is undamaged", damaged.size()),
             .why = damaged.front(),
             .next = "start a new run, without --resume"});
}

/// Returns the checkpoint at `path`, or the newest one in a folder.
Resumption open_checkpoint(const fs::path& path, const Model& model, ModelMatch match) {
  return is_checkpoint(path) ? Resumption{.checkpoint = read_checkpoint(path, model, match), .path = path}
                             : newest(checkpoint_folder_of(path), model, match);
}

/// `augmentation`: nullopt: the data set's standard one.
std::string text_of(const std::optional<Augmentation>& augmentation) {
  if (!augmentation) return "standard";
  const Augmentation& a = *augmentation;
  std::string text = fmt::format("padding {}, flip {}, cutout {}, mixup {}", a.padding, a.flip, a.cutout, a.mixup);
  if (const std::optional<RandomResizedCrop>& crop = a.resized_crop)
    text += fmt::format(", resized crop of area {} to {}, aspect {} to {}", crop->least_area, crop->most_area,
                        crop->least_aspect, crop->most_aspect);
  return text;
}

/// The settings of an optimizer that are numbers.
std::map<std::string, std::string> optimizer_numbers(const OptimizerConfig& o) {
  const std::pair<const char*, double> numbers[] = {{"momentum", o.momentum},
                                                    {"nesterov", o.nesterov ? 1 : 0},
                                                    {"weight_decay", o.weight_decay},
                                                    {"beta1", o.beta1},
                                                    {"beta2", o.beta2},
                                                    {"epsilon", o.epsilon},
                                                    {"alpha", o.alpha},
                                                    {"centered", o.centered ? 1 : 0},
                                                    {"rate_decay", o.rate_decay},
                                                    {"initial_accumulator", o.initial_accumulator},
                                                    {"trust", o.trust},
                                                    {"ema", o.ema}};
  std::map<std::string, std::string> settings;
  for (const auto& [key, value] : numbers) settings[fmt::format("optimizer.{}", key)] = fmt::format("{}", value);
  return settings;
}

/// Options of a model of the zoo, those that the experiment leaves out included.
std::map<std::string, double> options_of(const Experiment& e) {
  const std::vector<std::string> names = model_names();
  if (!e.model_file.empty() || std::find(names.begin(), names.end(), e.model_name) == names.end()) return {};
  std::map<std::string, double> options = e.model_options;
  options.merge(model_options(e.model_name));
  return options;
}

/// The numbers of weights and of the optimizer's state.
const char* numbers_of(const Experiment& experiment) {
  return experiment.precision == Precision::fp64 ? "float64" : "float32";
}

/// The first parameter that the experiment trains and whose optimizer state is not in the checkpoint; "": there is
/// none.
std::string without_state(const Checkpoint& checkpoint, const RunSpec& experiment, const Model& model) {
  const size_t count = size_t(optimizer_state_count(experiment.optimizer));
  const std::vector<std::string> frozen = frozen_of(experiment);
  for (const ParameterSpec& parameter : model.parameters()) {
    const auto state = checkpoint.state.optimizer.find(parameter.name);
    const size_t tensors = state == checkpoint.state.optimizer.end() ? 0 : state->second.size();
    if (tensors != count && !freezes(frozen, parameter.name)) return parameter.name;
  }
  return "";
}

/// Lets the optimizer's state begin anew, with a notice.
void begin_optimizer_anew(const std::string& why, Resumption& resumption) {
  TrainingState& state = resumption.checkpoint.state;
  if (!state.optimizer.empty()) resumption.notices.push_back("the optimizer's state begins anew: " + why);
  state.optimizer.clear();
  state.averaged_buffers.clear();
  state.updates = 0;
}

std::string not_trained_before(const std::string& parameter) {
  return fmt::format("there is none of {}, which was not trained", parameter);
}

/// Parameters that are trained from now on would have averages of 0 and moments of an early update at a late one.
/// Errors (user): replicas have such parameters, each with a state of its own.
void complete_optimizer(const RunSpec& experiment, const Model& model, const std::string& frozen_before,
                        Resumption& resumption) {
  const std::string missing = without_state(resumption.checkpoint, experiment, model);
  if (resumption.checkpoint.state.updates == 0 || missing.empty()) return;
  if (!resumption.checkpoint.state.agreement_texts.empty())
    fail_setting(
        resumption.path, "frozen", fmt::format("[{}]", frozen_before),
        fmt::format("[{}]: the replicas' optimizers have no state of {}", join(frozen_of(experiment)), missing));
  begin_optimizer_anew(not_trained_before(missing), resumption);
}

/// Errors (user): the checkpoint's step would mean other samples, because an earlier version left out the last samples
/// of a stream. In the first epoch it means the same ones.
void refuse_shorter_epochs(const Resumption& resumption, const RunSpec& experiment, const TaskData& data) {
  const CheckpointIndex& index = resumption.checkpoint.index;
  const int64_t full = data.train->size() / experiment.batch, rest = data.train->size() % experiment.batch;
  if (!data.train->is_stream() || rest == 0 || index.step <= full || index.settings.contains(kStreamSetting)) return;
  fail_user({.where = resumption.path.string(),
             .what = fmt::format("written after step {}, in epochs of {}", index.step, counted(full, "step")),
             .why = fmt::format("an earlier version left out the last {} of the text; now they are one more step",
                                counted(rest, "sample")),
             .next = "begin a new run with its weights and optimizer: --start-from"});
}

}  // namespace

std::map<std::string, std::string> curve_settings(const RunSpec& e, const Model& model, const TaskData& data,
                                                  int64_t steps) {
  const OptimizerConfig& o = e.optimizer;
  std::map<std::string, std::string> settings{{"seed", std::to_string(e.seed)},
                                              {"batch", std::to_string(e.batch)},
                                              {"model", model.name()},
                                              {"label_smoothing", fmt::format("{}", e.label_smoothing)},
                                              {"precision", name_of(e.precision)},
                                              {"numbers", numbers_of(e)},
                                              {"batch_norm", name_of(e.batch_norm)},
                                              {"frozen", join(frozen_of(e))},
                                              {"clip_norm", fmt::format("{}", e.clip_norm)},
                                              {"data.name", e.data.name},
                                              {"data.pad_to_multiple_of", std::to_string(e.pad_to_multiple_of)},
                                              {"training samples", std::to_string(data.train->size())},
                                              {"data.augment", e.data.augment ? "true" : "false"},
                                              {"optimizer", o.kind->name},
                                              {"optimizer.tensors", std::to_string(optimizer_state_count(o))},
                                              {"optimizer.learning_rate", fmt::format("{}", o.learning_rate)},
                                              {"optimizer.schedule", text_of(e.schedule)}};
  using Kind = LearningRateSchedule::Kind;
  if (e.schedule.kind == Kind::cosine || e.schedule.kind == Kind::polynomial)
    settings["length in steps"] = std::to_string(steps);
  settings.merge(optimizer_numbers(o));
  for (const auto& [key, value] : options_of(e))
    settings[fmt::format("{}{}", kModelOption, key)] = fmt::format("{}", value);
  if (data.train->is_stream()) settings[kStreamSetting] = "whole";
  if (e.data.augment) settings["data.augmentation"] = text_of(e.data.augmentation);
  settings[kSharesSetting] = name_of(e.replicas.shares);
  if (e.replicas.shares == SampleShares::dirichlet || e.replicas.shares == SampleShares::quantity)
    settings[kAlphaSetting] = fmt::format("{}", e.replicas.alpha);
  if (e.replicas.shares == SampleShares::features)
    settings[kFeatureNoiseSetting] = fmt::format("{}", e.replicas.feature_noise);
  return settings;
}

namespace {

/// What the evaluations until this checkpoint mean under the experiment's settings.
EarlyStopping stopping_at(const CheckpointIndex& index, const Experiment& experiment, const TaskData& data) {
  EarlyStopping stopping(experiment.early_stopping, data.train->task(), experiment.target, index.stopping);
  if (index.test_loss) stopping.compare_with_target({.loss = *index.test_loss, .metrics = index.metrics});
  return stopping;
}

/// Errors (user): the checkpoint knows the best evaluation, but does not have its weights.
void check_best(const EarlyStopping& stopping, const Resumption& resumption) {
  const CheckpointIndex& index = resumption.checkpoint.index;
  if (index.best_evaluation || !stopping.state().best) return;
  fail_user(
      {.where = resumption.path.string(),
       .what = "early_stopping.restore_best",
       .why = fmt::format("the best evaluation so far was after step {}, and the checkpoint lacks its weights: it "
                          "was written without restore_best",
                          stopping.state().best_step),
       .next = "leave restore_best out, or train from the beginning with it"});
}

/// Errors (user): the run has ended early, and nothing is left to train; its best weights are not known.
void check_goes_on(const Experiment& experiment, const TaskData& data, Resumption& resumption) {
  const CheckpointIndex& index = resumption.checkpoint.index;
  const EarlyStopping stopping = stopping_at(index, experiment, data);
  const std::string &before = index.stopping.measure, &now = stopping.state().measure;
  std::string why = stopping.reason();
  // Replicas that agree may have gone on after the evaluation that ended their run.
  if (why.empty() && experiment.early_stopping.at_target && !index.ended.empty() && index.reached &&
      index.reached->target == experiment.target)
    why = index.ended;
  if (experiment.early_stopping.patience > 0 && !before.empty() && before != now)
    resumption.notices.push_back(fmt::format("early stopping counts anew: it watches {}, before {}", now, before));
  if (why.empty() && experiment.early_stopping.restore_best) check_best(stopping, resumption);
  if (why.empty() && experiment.early_stopping.restore_best && !stopping.state().best && index.step > 0)
    resumption.notices.emplace_back("restore_best compares the evaluations from here on: earlier ones are not known");
  if (why.empty()) return;
  fail_user({.where = resumption.path.string(),
             .what = fmt::format("training is complete: it ended early, after {}", counted(index.step, "step")),
             .why = why,
             .next = "to train on, raise early_stopping.patience or the target, or leave out what ended it"});
}

}  // namespace

Resumption open_resumption(const fs::path& path, const RunSpec& experiment, const Model& model, const TaskData& data,
                           std::optional<int64_t> length) {
  Resumption resumption = open_checkpoint(path, model, ModelMatch::all);
  const CheckpointIndex& index = resumption.checkpoint.index;
  const int64_t steps =
      length ? *length : steps_of(experiment.length, Batches(experiment, data).sampler().steps_per_epoch());
  const auto now = curve_settings(experiment, model, data, steps);
  std::vector<std::string> differing;
  std::optional<std::string> frozen_before;  // if it differs
  for (const auto& [key, written] : index.settings) {
    const auto mine = now.find(key);
    if (mine == now.end() || mine->second == written) continue;
    if (must_match(key, written, mine->second)) fail_setting(resumption.path, key, written, mine->second);
    if (key == "frozen") frozen_before = written;
    differing.push_back(fmt::format("{} {}, was {}", key, mine->second, written));
  }
  if (const auto written = index.settings.find(kDataSetting); written != index.settings.end() && !experiment.own_data)
    check_data(resumption.path, written->second, *data.train);
  refuse_shorter_epochs(resumption, experiment, data);
  if (steps > 0 && index.step >= steps)
    fail_user(
        {.where = resumption.path.string(),
         .what = fmt::format("{} steps are done", index.step),
         .why = fmt::format("the training has {} in all, and none is left", counted(steps, "step")),
         .next = fmt::format("train longer: --steps {} or more, which counts from the beginning", index.step + 1)});
  check_goes_on(experiment, data, resumption);
  if (!differing.empty())
    resumption.notices.push_back("the curve will not be that of one uninterrupted run: " + join(differing, "; "));
  if (frozen_before) complete_optimizer(experiment, model, *frozen_before, resumption);
  return resumption;
}

namespace {

/// Errors (user): the weights are those of one of several replicas. Where a parameter server alone wrote the
/// checkpoint, they are the server's.
void refuse_one_of_replicas(const Resumption& start) {
  if (!start.checkpoint.state.agreement_texts.contains("0")) return;
  const fs::path run = fs::absolute(start.path).lexically_normal().parent_path().parent_path();
  const fs::path result = fs::exists(run / kWeightsFile) ? run / kWeightsFile : fs::path("FOLDER") / kWeightsFile;
  fail_user({.where = start.path.string(),
             .what = "is of replicas under an update policy",
             .why = "its weights are those of the first replica, not the run's result",
             .next = fmt::format("begin with the result's weights: --set model.weights={}", result.string())});
}

/// Returns why the optimizer's state cannot be used; "" if it can.
std::string why_no_optimizer_state(const Checkpoint& checkpoint, const RunSpec& experiment, const Model& model) {
  const auto& settings = checkpoint.index.settings;
  const auto kind = settings.find("optimizer"), tensors = settings.find("optimizer.tensors");
  if (kind == settings.end() || tensors == settings.end()) return "the checkpoint does not name its optimizer";
  if (kind->second != experiment.optimizer.kind->name)
    return fmt::format("it is of {}, the experiment has {}", kind->second, experiment.optimizer.kind->name);
  if (tensors->second != std::to_string(optimizer_state_count(experiment.optimizer)))
    return "it has another number of tensors";
  for (const auto& [key, now] : optimizer_numbers(experiment.optimizer))
    if (const auto written = settings.find(key);
        contains(kOfStateTensors, key) && written != settings.end() && must_match(key, written->second, now))
      return fmt::format("it is of {} = {}, the experiment has {}", key, written->second, now);
  const std::string missing = without_state(checkpoint, experiment, model);
  return missing.empty() ? "" : not_trained_before(missing);
}

}  // namespace

Resumption open_start(const fs::path& path, const RunSpec& experiment, const Model& model) {
  Resumption start = open_checkpoint(path, model, ModelMatch::tensors);
  CheckpointIndex& index = start.checkpoint.index;
  TrainingState& state = start.checkpoint.state;
  refuse_one_of_replicas(start);
  const std::string numbers = numbers_of(experiment);
  if (const auto written = index.settings.find("numbers");
      written != index.settings.end() && written->second != numbers)
    fail_setting(start.path, "numbers", written->second, numbers);
  start.notices.insert(start.notices.begin(), fmt::format("begins with the state after step {} of {}, written under {}",
                                                          index.step, start.path.string(), index.plan));
  if (const std::string why = why_no_optimizer_state(start.checkpoint, experiment, model); !why.empty())
    begin_optimizer_anew(why, start);
  const std::vector<std::string> frozen = frozen_of(experiment);
  std::erase_if(state.optimizer, [&](const auto& entry) { return freezes(frozen, entry.first); });
  state.carried.clear();
  if (!state.errors.empty())
    start.notices.emplace_back("what PowerSGD had not sent yet is dropped: a new run begins without it");
  state.errors.clear();
  state.factors.clear();
  state.agreement.clear();
  state.agreement_texts.clear();
  state.best.clear();
  index.step = index.samples = 0;
  index.epoch = index.seconds = 0;
  index.awaits_evaluation = false;
  index.stopping = {};
  index.ended.clear();
  index.best_evaluation.reset();
  index.reached.reset();
  return start;
}

namespace {

/// "fc1.weight and 2 more"
std::string first_and_more(const std::vector<std::string>& parameters) {
  const size_t others = parameters.size() - 1;
  return parameters.front() + (others == 0 ? "" : fmt::format(" and {} more", others));
}

}  // namespace

void note_factors_left(const Plan& plan, const RunSpec& experiment, const Model& model, Resumption& resumption) {
  const TrainingState& state = resumption.checkpoint.state;
  if (state.errors.empty()) return;
  const FactorsLeft left = factors_left(compile(model, plan, options_of(experiment, plan, /*training=*/true)), state);
  if (!left.errors.empty())
    resumption.notices.push_back(
        fmt::format("what PowerSGD had not sent yet of {} is dropped: under plan {} no factors are sent",
                    first_and_more(left.errors), plan.name));
  if (!left.factors.empty())
    resumption.notices.push_back(
        fmt::format("PowerSGD draws new factors for {}: plan {} divides the parameters otherwise, or has another rank",
                    first_and_more(left.factors), plan.name));
}

namespace {

/// `found`: all are after the last step. Errors (user): one of them is undamaged, so the training is complete.
void refuse_to_train_again(const std::vector<FoundCheckpoint>& found) {
  for (auto entry = found.rbegin(); entry != found.rend(); ++entry)
    if (damage_of(*entry).empty())
      fail_user({.where = entry->path.string(),
                 .what = fmt::format("training is complete: {} are done", counted(entry->step, "step")),
                 .why = "a rank was lost after this checkpoint, and there is no older one to go on from",
                 .next = fmt::format("use its weights: model.weights = \"{}\"",
                                     (entry->path / kCheckpointWeights).string())});
}

}  // namespace

std::optional<Resumption> open_own_resumption(const fs::path& run_folder, const RunSpec& experiment, const Model& model,
                                              const TaskData& data) {
  const fs::path folder = run_folder / kCheckpointFolder;
  const int64_t steps = steps_of(experiment.length, Batches(experiment, data).sampler().steps_per_epoch());
  std::vector<FoundCheckpoint> found;
  if (fs::is_directory(folder)) found = find_checkpoints(folder);
  const std::vector<FoundCheckpoint> all = found;
  std::erase_if(found, [&](const FoundCheckpoint& entry) {
    return entry.step >= steps || (entry.index && !stopping_at(*entry.index, experiment, data).reason().empty());
  });
  if (found.empty()) {
    refuse_to_train_again(all);
    return std::nullopt;
  }
  std::vector<std::string> damaged;
  for (auto entry = found.rbegin(); entry != found.rend(); ++entry) {
    try {
      Resumption resumption = open_resumption(entry->path, experiment, model, data);
      for (const std::string& damage : damaged) resumption.notices.push_back("damaged, and removed: " + damage);
      remove_after(real_file_system(), folder, entry->step);
      return resumption;
    } catch (const Error& error) {
      damaged.push_back(damage_in(error));
    }
  }
  fail_user({.where = folder.string(),
             .what = fmt::format("none of {} checkpoints is undamaged", damaged.size()),
             .why = damaged.front(),
             .next = "start a new run in another folder"});
}

}  // namespace trireme
