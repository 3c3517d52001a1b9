#include "checkpoint/checkpoint.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_file.h"
#include "checkpoint/state_tensors.h"
#include "model/weights/file_shapes.h"
#include "model/weights/safetensors.h"
#include "model/weights/weights.h"
#include "trireme/error.h"

namespace trireme {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointFile, name, bytes, crc32)
// index_json() and index_from() add the fields that older files lack and those that may be NaN.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointIndex, step, samples, epoch, seconds, seed, updates, experiment, model,
                                   plan, best, settings, files)

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kFormat = 1;
constexpr const char* kChecksum = "checksum";  // checksum of the index itself, over its other fields
constexpr std::string_view kModelFiles = "model", kStateFiles = "state", kAgreementFiles = "agreement",
                           kBestFiles = "best";
constexpr uint64_t kReadBytes = uint64_t{1} << 20;

uint32_t crc_of(std::string_view bytes, uint32_t before = 0) {
  return uint32_t(::crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

[[noreturn]] void fail_damaged(const fs::path& file, std::string what, std::string why) {
  fail_user({.where = file.string(),
             .what = std::move(what),
             .why = std::move(why),
             .next = fmt::format("trireme checkpoints verify {} shows from which checkpoint to resume",
                                 file.parent_path().parent_path().string())});
}

/// A file of the checkpoint that is being written, and its entry in the index.
class NewFile {
 public:
  NewFile(FileSystem& files, const fs::path& folder, std::string name)
      : described_{.name = std::move(name)}, file_(files.create(folder / described_.name)) {}
  void append(std::string_view bytes) {
    file_->append(bytes);
    described_.bytes += int64_t(bytes.size());
    described_.crc32 = crc_of(bytes, described_.crc32);
  }
  CheckpointFile finish() {
    file_->sync();
    return described_;
  }

 private:
  CheckpointFile described_;
  std::unique_ptr<WritableFile> file_;
};

/// Divides the tensors, in the order of their names, among files of at most `limit` bytes. A larger tensor has a file
/// to itself.
std::vector<TensorMap> shards_of(const TensorMap& tensors, int64_t limit) {
  std::vector<TensorMap> shards;
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto size = int64_t(tensor.nbytes());
    if (shards.empty() || bytes + size > limit) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().emplace(name, tensor);
    bytes += size;
  }
  return shards;
}

/// Writes `<kind>-00001-of-0000N.safetensors`. Returns the file of each tensor, by name.
std::map<std::string, std::string> write_shards(FileSystem& files, const fs::path& folder, std::string_view kind,
                                                const TensorMap& tensors, int64_t limit,
                                                std::vector<CheckpointFile>& written) {
  const std::vector<TensorMap> shards = shards_of(tensors, limit);
  std::map<std::string, std::string> file_of;
  for (size_t s = 0; s < shards.size(); ++s) {
    const std::string name = fmt::format("{}-{:05}-of-{:05}.safetensors", kind, s + 1, shards.size());
    NewFile file(files, folder, name);
    write_safetensors([&](std::string_view bytes) { file.append(bytes); }, folder / name, shards[s],
                      {{"format", "pt"}});
    written.push_back(file.finish());
    for (const auto& entry : shards[s]) file_of[entry.first] = name;
  }
  return file_of;
}

void write_text(FileSystem& files, const fs::path& folder, const std::string& name, const std::string& text,
                std::vector<CheckpointFile>& written) {
  NewFile file(files, folder, name);
  file.append(text);
  written.push_back(file.finish());
}

json stopping_json(const StoppingState& state) {
  if (state.measure.empty()) return nullptr;
  return {{"measure", state.measure},
          {"best", state.best ? json(*state.best) : json()},
          {"best_step", state.best_step},
          {"without_improvement", state.without_improvement}};
}

StoppingState stopping_from(const json& j) {
  if (j.is_null()) return {};
  StoppingState state{.measure = j.at("measure").get<std::string>(),
                      .best_step = j.at("best_step").get<int64_t>(),
                      .without_improvement = j.at("without_improvement").get<int64_t>()};
  if (!j.at("best").is_null()) state.best = j.at("best").get<double>();
  return state;
}

json metrics_json(const std::vector<Metric>& metrics) {
  json list = json::array();
  for (const Metric& metric : metrics) list.push_back({{"name", metric.name}, {"value", json_number(metric.value)}});
  return list;
}

std::vector<Metric> metrics_from(const json& list) {
  std::vector<Metric> metrics;
  metrics.reserve(list.size());
  for (const json& metric : list)
    metrics.push_back({metric.at("name").get<std::string>(), number_from(metric.at("value"))});
  return metrics;
}

json evaluation_json(const std::optional<EvaluationPoint>& point) {
  if (!point) return nullptr;
  return {{"step", point->step},       {"samples", point->samples},        {"epoch", point->epoch},
          {"seconds", point->seconds}, {"loss", json_number(point->loss)}, {"metrics", metrics_json(point->metrics)}};
}

std::optional<EvaluationPoint> evaluation_from(const json& j) {
  if (j.is_null()) return std::nullopt;
  return EvaluationPoint{.step = j.at("step").get<int64_t>(),
                         .samples = j.at("samples").get<int64_t>(),
                         .epoch = j.at("epoch").get<double>(),
                         .seconds = j.at("seconds").get<double>(),
                         .loss = number_from(j.at("loss")),
                         .metrics = metrics_from(j.at("metrics"))};
}

json reached_json(const std::optional<TargetReached>& reached) {
  if (!reached) return nullptr;
  return {{"target", reached->target},
          {"steps", reached->after.steps},
          {"epochs", reached->after.epochs},
          {"seconds", reached->after.seconds}};
}

std::optional<TargetReached> reached_from(const json& j) {
  if (j.is_null()) return std::nullopt;
  return TargetReached{
      j.at("target").get<double>(),
      ToTarget{j.at("steps").get<int64_t>(), j.at("epochs").get<double>(), j.at("seconds").get<double>()}};
}

json index_json(const CheckpointIndex& index) {
  json j = index;
  j.update({{"format", kFormat},
            {"loss", json_number(index.loss)},
            {"test_loss", index.test_loss ? json_number(*index.test_loss) : json()},
            {"awaits_evaluation", index.awaits_evaluation},
            {"stopping", stopping_json(index.stopping)},
            {"ended", index.ended},
            {"best_evaluation", evaluation_json(index.best_evaluation)},
            {"reached", reached_json(index.reached)},
            {"agreement", index.agreement},
            {"metrics", metrics_json(index.metrics)}});
  return j;
}

CheckpointIndex index_from(const json& j) {
  auto index = j.get<CheckpointIndex>();
  index.loss = number_from(j.at("loss"));
  // these keys were added after the format was defined
  index.awaits_evaluation = j.value("awaits_evaluation", false);
  index.stopping = stopping_from(j.value("stopping", json()));
  index.ended = j.value("ended", "");
  index.best_evaluation = evaluation_from(j.value("best_evaluation", json()));
  index.reached = reached_from(j.value("reached", json()));
  index.agreement = j.value("agreement", std::map<std::string, std::string>{});
  if (!j.at("test_loss").is_null()) index.test_loss = j.at("test_loss").get<double>();
  index.metrics = metrics_from(j.at("metrics"));
  return index;
}

std::string with_checksum(json j) {
  constexpr int kIndent = 1;
  const auto replaced = json::error_handler_t::replace;
  j[kChecksum] = crc_of(j.dump(-1, ' ', false, replaced));
  return j.dump(kIndent, ' ', false, replaced) + "\n";
}

void check_size(const fs::path& path, const CheckpointFile& file) {
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  if (error)
    fail_damaged(path, "is missing", fmt::format("{} says that it is part of the checkpoint", kCheckpointIndex));
  if (int64_t(bytes) == file.bytes) return;
  fail_damaged(path, fmt::format("has {} bytes", bytes),
               fmt::format("{} says {}: {}", kCheckpointIndex, file.bytes,
                           int64_t(bytes) < file.bytes ? "it was cut short" : "it was changed"));
}

void check_bytes(const fs::path& path, const CheckpointFile& file) {
  const InputFile opened(path);
  std::string bytes;
  uint32_t checksum = 0;
  for (uint64_t at = 0; at < opened.size(); at += bytes.size()) {
    bytes.resize(size_t(std::min(kReadBytes, opened.size() - at)));
    opened.read(at, bytes.data(), bytes.size());
    checksum = crc_of(bytes, checksum);
  }
  if (checksum == file.crc32) return;
  fail_damaged(path, fmt::format("CRC-32 {:08x}", checksum),
               fmt::format("{} says {:08x}: bytes changed after it was written", kCheckpointIndex, file.crc32));
}

void check_all_bytes(const fs::path& checkpoint, const CheckpointIndex& index) {
  for (const CheckpointFile& file : index.files) check_bytes(checkpoint / file.name, file);
}

/// `what`: how the checkpoint's model differs from the experiment's.
[[noreturn]] void fail_other_tensors(const fs::path& checkpoint, std::string what) {
  fail_user({.where = checkpoint.string(),
             .what = std::move(what),
             .why = "the experiment's model must have the same parameters; those of some models depend on the size of "
                    "their samples",
             .next = "begin with a run of this model; to take only what fits, use model.weights and weights_match"});
}

/// Takes a tensor out of the model's files. `file_shape`: its shape there; empty: `shape`, the model's. Throws a user
/// error if it is missing or has another shape.
at::Tensor take(TensorMap& tensors, const std::string& name, const Shape& shape, const Shape& file_shape,
                const fs::path& checkpoint, ModelMatch match) {
  const auto found = tensors.find(name);
  const bool fits = found != tensors.end() && found->second.sizes().equals(file_shape.empty() ? shape : file_shape);
  if (!fits && match == ModelMatch::tensors)
    fail_other_tensors(
        checkpoint, fmt::format("its model has {} \"{}\"", found == tensors.end() ? "no" : "another shape of", name));
  if (!fits)
    fail_damaged(checkpoint, fmt::format("tensor \"{}\"", name),
                 found == tensors.end() ? "it is missing" : "it has another shape");
  at::Tensor tensor = found->second.reshape(shape);
  tensors.erase(found);
  return tensor;
}

/// Errors (user): PowerSGD's tensors are not of the model's parameters, or some are missing.
void check_factors(const fs::path& checkpoint, const Model& model, const TrainingState& state) {
  std::map<std::string, Shape> shapes;
  for (const ParameterSpec& spec : model.parameters()) shapes[spec.name] = spec.shape;
  for (const auto& [name, error] : state.errors) {
    const auto known = shapes.find(name);
    if (known == shapes.end() || !error.sizes().equals(known->second))
      fail_damaged(checkpoint, fmt::format("tensor \"error/{}\"", printable(name)),
                   known == shapes.end() ? "the model has no such parameter" : "it has another shape");
    const auto factor = state.factors.lower_bound(name + "/");
    if (factor == state.factors.end() || parameter_of_factor(factor->first) != name)
      fail_damaged(checkpoint, fmt::format("tensor \"factor/{}\"", printable(name)), "it is missing");
  }
  for (const auto& [name, factor] : state.factors)
    if (const std::string parameter = parameter_of_factor(name); !state.errors.contains(parameter))
      fail_damaged(checkpoint, fmt::format("tensor \"error/{}\"", printable(parameter)), "it is missing");
}

template <class T>
bool all_finite(const at::Tensor& tensor) {
  const T* values = tensor.data_ptr<T>();
  return std::all_of(values, values + tensor.numel(), [](T value) { return std::isfinite(value); });
}

bool is_finite(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kDouble) return all_finite<double>(tensor);
  if (tensor.scalar_type() == at::kFloat) return all_finite<float>(tensor);
  return at::isfinite(tensor).all().item<bool>();
}

}  // namespace

int64_t CheckpointIndex::bytes() const {
  int64_t sum = 0;
  for (const CheckpointFile& file : files) sum += file.bytes;
  return sum;
}

std::string checkpoint_name(int64_t step) { return fmt::format("{}{:08}", kCheckpointPrefix, step); }

std::optional<int64_t> step_in(std::string_view name) {
  if (!name.starts_with(kCheckpointPrefix)) return std::nullopt;
  name.remove_prefix(kCheckpointPrefix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) return std::nullopt;
  return step;
}

void clean_up(FileSystem& files, const fs::path& folder) {
  for (const std::string& name : names_in(folder)) {
    if (!name.ends_with(kUnfinished) || !step_in(name.substr(0, name.size() - kUnfinished.size()))) continue;
    for (const std::string& file : names_in(folder / name)) files.remove(folder / name / file);
    files.remove(folder / name);
  }
}

namespace {

void remove_whole(FileSystem& files, const fs::path& folder, const fs::path& checkpoint) {
  fs::path leaving = checkpoint;
  leaving += kUnfinished;
  files.rename(checkpoint, leaving);
  files.sync_folder(folder);
  clean_up(files, folder);
}

/// Returns a second name of the step, with more zeros: a folder with files cannot be replaced.
fs::path second_name(const fs::path& folder, int64_t step) {
  return folder / fmt::format("{}{:012}", kCheckpointPrefix, step);
}

/// Removes the older of two checkpoints of the step, which a crash has left. Call it when no other one is being
/// written.
void remove_older(FileSystem& files, const fs::path& folder, int64_t step) {
  const fs::path place = folder / checkpoint_name(step), older = second_name(folder, step);
  std::error_code ignored;
  if (older != place && fs::exists(place, ignored) && fs::exists(older, ignored)) remove_whole(files, folder, older);
}

/// Gives the finished checkpoint its name. An older one of the same step gets its second name first, and is removed
/// last: one of both counts at any time.
void put_in_place(FileSystem& files, const fs::path& folder, const fs::path& finished, int64_t step) {
  const fs::path place = folder / checkpoint_name(step), older = second_name(folder, step);
  std::error_code ignored;
  if (older != place && fs::exists(place, ignored)) {
    files.rename(place, older);
    files.sync_folder(folder);
  }
  files.rename(finished, place);
  files.sync_folder(folder);
  remove_older(files, folder, step);
}

}  // namespace

CheckpointIndex write_checkpoint(FileSystem& files, const fs::path& folder, CheckpointIndex index, const Model& model,
                                 const TrainingState& state, int64_t shard_bytes) {
  clean_up(files, folder);
  remove_older(files, folder, index.step);
  const fs::path place = folder / checkpoint_name(index.step);
  fs::path unfinished = place;
  unfinished += kUnfinished;
  files.create_folder(unfinished);
  index.model = model.fingerprint();
  index.updates = state.updates;
  TensorMap weights = state.weights;
  weights.insert(state.buffers.begin(), state.buffers.end());
  const TensorMap in_file = in_file_shapes(model, weights);
  const auto file_of = write_shards(files, unfinished, kModelFiles, in_file, shard_bytes, index.files);
  int64_t weight_bytes = 0;
  for (const auto& entry : in_file) weight_bytes += int64_t(entry.second.nbytes());
  write_text(files, unfinished, kCheckpointWeights,
             json{{"metadata", {{"total_size", weight_bytes}}}, {"weight_map", file_of}}.dump(1) + "\n", index.files);
  write_shards(files, unfinished, kStateFiles, state_tensors(state), shard_bytes, index.files);
  write_shards(files, unfinished, kAgreementFiles, state.agreement, shard_bytes, index.files);
  write_shards(files, unfinished, kBestFiles, state.best, shard_bytes, index.files);
  index.agreement = state.agreement_texts;
  std::vector<CheckpointFile> itself;
  write_text(files, unfinished, kCheckpointIndex, with_checksum(index_json(index)), itself);
  files.sync_folder(unfinished);
  put_in_place(files, folder, unfinished, index.step);
  return index;
}

CheckpointIndex read_checkpoint_index(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kCheckpointIndex;
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_regular_file(path, error))
    fail_damaged(path, "not the index of a checkpoint", "it is not a regular file");
  json j = read_json_file(path);
  if (!j.is_object() || !j.contains("format") || !j.contains(kChecksum))
    fail_damaged(path, "not the index of a checkpoint", "it has no format and checksum");
  if (j["format"] != kFormat)
    fail_user({.where = path.string(),
               .what = "format " + j["format"].dump(),
               .why = fmt::format("this version reads {}", kFormat),
               .next = "use the version that wrote it"});
  const json expected = j[kChecksum];
  j.erase(kChecksum);
  const uint32_t checksum = crc_of(j.dump(-1, ' ', false, json::error_handler_t::replace));
  if (expected != checksum)
    fail_damaged(path, fmt::format("CRC-32 {:08x}", checksum),
                 "it says " +
                     (expected.is_number_unsigned() ? fmt::format("{:08x}", expected.get<uint64_t>())
                                                    : std::string("no number")) +
                     ": it was changed after it was written");
  CheckpointIndex index;
  try {
    index = index_from(j);
  } catch (const json::exception& error) {
    fail_damaged(path, "not the index of a checkpoint", error.what());
  }
  for (const CheckpointFile& file : index.files) {
    // a foreign index must not refer to files outside its checkpoint
    if (fs::path(file.name).filename() != file.name || file.name == "..")
      fail_damaged(path, printable(file.name), "it must be the name of a file in the same folder");
    check_size(checkpoint / file.name, file);
  }
  return index;
}

void verify_checkpoint(const fs::path& checkpoint) { check_all_bytes(checkpoint, read_checkpoint_index(checkpoint)); }

Checkpoint read_checkpoint(const fs::path& checkpoint, const Model& model, ModelMatch match) {
  Checkpoint read{.index = read_checkpoint_index(checkpoint), .state = {}};
  if (match == ModelMatch::all && read.index.model != model.fingerprint()) {
    const auto its = read.index.settings.find("model");
    fail_user({.where = checkpoint.string(),
               .what = its == read.index.settings.end() ? "is of another model" : "is of model " + its->second,
               .why = fmt::format("the experiment's model, {}, has other layers, shapes or edges", model.name()),
               .next = "resume the experiment that wrote it, or start a new run with its files as model.weights"});
  }
  check_all_bytes(checkpoint, read.index);
  read.state.updates = read.index.updates;
  read.state.agreement_texts = read.index.agreement;
  TensorMap weights, best;
  for (const CheckpointFile& file : read.index.files) {
    const fs::path path = checkpoint / file.name;
    if (path.extension() != ".safetensors") continue;
    Weights shard = read_safetensors(path);
    if (file.name.starts_with(kModelFiles)) weights.merge(shard.tensors);
    else if (file.name.starts_with(kAgreementFiles)) read.state.agreement.merge(shard.tensors);
    else if (file.name.starts_with(kBestFiles)) best.merge(shard.tensors);
    else
      for (auto& [name, tensor] : shard.tensors)
        if (!put_state_tensor(name, std::move(tensor), read.state))
          fail_damaged(path, fmt::format("tensor \"{}\"", printable(name)), "this version does not know the name");
  }
  for (const ParameterSpec& spec : model.parameters())
    read.state.weights[spec.name] = take(weights, spec.name, spec.shape, spec.file_shape, checkpoint, match);
  for (const BufferSpec& spec : model.buffers())
    read.state.buffers[spec.name] = take(weights, spec.name, spec.shape, {}, checkpoint, match);
  check_factors(checkpoint, model, read.state);
  if (!best.empty()) {
    for (const ParameterSpec& spec : model.parameters())
      read.state.best[spec.name] = take(best, spec.name, spec.shape, {}, checkpoint, match);
    for (const BufferSpec& spec : model.buffers())
      read.state.best[spec.name] = take(best, spec.name, spec.shape, {}, checkpoint, match);
  }
  if (match == ModelMatch::tensors && !weights.empty())
    fail_other_tensors(checkpoint, fmt::format("its model also has \"{}\"", printable(weights.begin()->first)));
  return read;
}

std::string not_finite(const TrainingState& state) {
  for (const TensorMap* tensors :
       {&state.weights, &state.buffers, &state.averaged_buffers, &state.carried, &state.agreement})
    for (const auto& [name, tensor] : *tensors)
      if (!is_finite(tensor)) return name;
  for (const auto& [name, states] : state.optimizer)
    for (const at::Tensor& tensor : states)
      if (!is_finite(tensor)) return "the optimizer's state of " + name;
  for (const TensorMap* tensors : {&state.errors, &state.factors})
    for (const auto& [name, tensor] : *tensors)
      if (!is_finite(tensor)) return "what PowerSGD keeps of " + name;
  return "";
}

}  // namespace trireme
