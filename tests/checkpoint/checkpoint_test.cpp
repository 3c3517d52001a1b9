// Checkpoint files: a checkpoint is read as it was written, also after an interrupted write; damage is found and named.
#include "checkpoint/checkpoint.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "../base/expect_error.h"
#include "../base/faulty_file_system.h"
#include "base/json_file.h"
#include "checkpoint/checkpoint_folder.h"
#include "model/weights/read_weights.h"
#include "zoo/zoo.h"

namespace trireme::test_support {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using Loss = FaultyFileSystem::Loss;

Model mlp(double hidden = 8) {
  return make_model({.name = "mlp", .sample_shape = {4}, .classes = 3, .options = {{"hidden", hidden}}});
}
Model with_statistics() {
  return make_model({.name = "cifar-resnet18", .sample_shape = {3, 8, 8}, .classes = 3, .options = {{"width", 2}}});
}

/// Returns a state with a value in every field; each seed gives other values.
TrainingState state_of(const Model& model, int64_t seed) {
  at::manual_seed(uint64_t(seed));
  TrainingState state;
  state.updates = seed;
  for (const ParameterSpec& spec : model.parameters()) {
    state.weights[spec.name] = at::randn(spec.shape);
    for (int k = 0; k < 3; ++k) state.optimizer[spec.name].push_back(at::randn(spec.shape));
    if (spec.shape.size() < 2) continue;
    state.errors[spec.name] = at::randn(spec.shape);
    state.factors[factor_name(spec.name, whole(spec.shape))] =
        at::randn({element_count(spec.shape) / spec.shape[0], 2});
  }
  for (const BufferSpec& spec : model.buffers()) {
    state.buffers[spec.name] = at::randn(spec.shape);
    state.averaged_buffers[spec.name] = at::randn(spec.shape);
  }
  state.carried["lstm1/hidden"] = at::randn({6, 5});
  return state;
}

void expect_same(const TensorMap& a, const TensorMap& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : b) EXPECT_TRUE(a.contains(name) && at::equal(a.at(name), tensor)) << name;
}

void expect_same(const TrainingState& a, const TrainingState& b) {
  EXPECT_EQ(a.updates, b.updates);
  expect_same(a.weights, b.weights);
  expect_same(a.buffers, b.buffers);
  expect_same(a.averaged_buffers, b.averaged_buffers);
  expect_same(a.carried, b.carried);
  expect_same(a.errors, b.errors);
  expect_same(a.factors, b.factors);
  ASSERT_EQ(a.optimizer.size(), b.optimizer.size());
  for (const auto& [name, states] : b.optimizer) {
    ASSERT_EQ(a.optimizer.at(name).size(), states.size()) << name;
    for (size_t k = 0; k < states.size(); ++k)
      EXPECT_TRUE(at::equal(a.optimizer.at(name)[k], states[k])) << name << " " << k;
  }
}

class Checkpoints : public ::testing::Test {
 protected:
  Checkpoints() {
    for (const fs::path& folder : {folder_, removed_}) fs::create_directories(folder);
  }
  ~Checkpoints() override { fs::remove_all(root_); }

  /// Writes a checkpoint without a fault, and without the time of real syncs.
  CheckpointIndex write(int64_t step, const Model& model = mlp(), int64_t shard_bytes = kShardBytes) {
    FaultyFileSystem files(fresh_removed());
    return write_checkpoint(files, folder_,
                            {.step = step,
                             .samples = 10 * step,
                             .epoch = 0.5,
                             .seconds = 1.5,
                             .loss = 0.25,
                             .seed = 7,
                             .experiment = "test",
                             .plan = "data 2",
                             .settings = {{"model", "mlp"}}},
                            model, state_of(model, step), shard_bytes);
  }
  fs::path fresh_removed() {
    const fs::path folder = removed_ / std::to_string(runs_++);
    fs::create_directory(folder);
    return folder;
  }
  fs::path at_step(int64_t step) const { return folder_ / checkpoint_name(step); }

  const fs::path root_ = fs::path(::testing::TempDir()) / ("checkpoint_test." + std::to_string(::getpid()));
  const fs::path folder_ = root_ / "checkpoints", removed_ = root_ / "removed";
  int runs_ = 0;
};

TEST_F(Checkpoints, AreReadAsTheyWereWritten) {
  for (const Model& model : {mlp(), with_statistics()}) {
    const TrainingState state = state_of(model, 12);
    const CheckpointIndex written = write_checkpoint(real_file_system(), folder_,
                                                     {.step = 12,
                                                      .samples = 120,
                                                      .epoch = 1.2,
                                                      .seconds = 3.25,
                                                      .loss = 0.125,
                                                      .test_loss = 0.5,
                                                      .metrics = {{"accuracy", 0.75}, {"iou.3", NAN}},
                                                      .seed = std::numeric_limits<uint64_t>::max(),
                                                      .experiment = "tést",
                                                      .plan = "data 2",
                                                      .best = "accuracy",
                                                      .settings = {{"batch", "10"}}},
                                                     model, state);
    const Checkpoint read = read_checkpoint(at_step(12), model);
    expect_same(read.state, state);
    const CheckpointIndex& index = read.index;
    EXPECT_EQ(std::tuple(index.step, index.samples, index.epoch, index.seconds, index.loss, *index.test_loss),
              std::tuple(12, 120, 1.2, 3.25, 0.125, 0.5));
    EXPECT_EQ(index.metrics[0], (Metric{"accuracy", 0.75}));
    EXPECT_TRUE(std::isnan(index.metrics[1].value));
    EXPECT_EQ(index.seed, std::numeric_limits<uint64_t>::max());
    EXPECT_EQ(std::tuple(index.experiment, index.plan, index.best), std::tuple("tést", "data 2", "accuracy"));
    EXPECT_EQ(index.settings, (std::map<std::string, std::string>{{"batch", "10"}}));
    EXPECT_EQ(index.bytes(), written.bytes());
    // read_weights reads the weights of a checkpoint like any other weights file.
    EXPECT_EQ(read_weights(at_step(12) / "model.safetensors.index.json").tensors.size(),
              state.weights.size() + state.buffers.size());
    fs::remove_all(at_step(12));
  }
}

TEST_F(Checkpoints, AreCutIntoFilesOfLimitedSize) {
  const Model model = with_statistics();
  constexpr int64_t kLimit = 2000;
  const CheckpointIndex written = write(3, model, kLimit);
  std::set<std::string> names;
  for (const CheckpointFile& file : written.files) {
    names.insert(file.name);
    EXPECT_EQ(int64_t(fs::file_size(at_step(3) / file.name)), file.bytes);
  }
  EXPECT_GT(names.size(), 5u);
  for (const std::string& name : names) {
    if (!name.ends_with(".safetensors")) continue;
    const Weights shard = read_weights(at_step(3) / name);
    int64_t bytes = 0;
    for (const auto& entry : shard.tensors) bytes += int64_t(entry.second.nbytes());
    EXPECT_TRUE(bytes <= kLimit || shard.tensors.size() == 1) << name << ": " << bytes;
  }
  expect_same(read_checkpoint(at_step(3), model).state, state_of(model, 3));
}

/// Returns the step of the newest checkpoint. The test fails if a folder with a checkpoint's name is not complete.
int64_t newest_complete(const fs::path& folder) {
  int64_t newest = 0;
  for (const FoundCheckpoint& found : find_checkpoints(folder)) {
    EXPECT_TRUE(found.index) << "a name that claims to be a checkpoint: " << found.damage;
    verify_checkpoint(found.path);
    newest = std::max(newest, found.step);
  }
  return newest;
}

/// The machine crashes at each operation of writing a checkpoint and removing the older one, and loses unsynced data.
/// Then the old or the new checkpoint is complete, and the next one can be written.
TEST_F(Checkpoints, ACrashAtAnyOperationLeavesTheOldOneOrTheNewOne) {
  const Model model = mlp();
  const CheckpointSpec keep_one{.every = {1, Length::Unit::steps}, .keep = 1, .best = {}, .folder = {}, .where = {}};
  write(10);
  const fs::path before = root_ / "before";
  fs::copy(folder_, before, fs::copy_options::recursive);
  for (const Loss loss : {Loss::nothing, Loss::bytes, Loss::bytes_to_zeros, Loss::names, Loss::bytes_and_names}) {
    std::set<int64_t> left;
    bool crashed = true;
    int64_t operations = 0;
    for (int64_t k = 0; crashed; ++k) {
      SCOPED_TRACE(::testing::Message() << "operation " << k << ", loss " << int(loss));
      fs::remove_all(folder_);
      fs::copy(before, folder_, fs::copy_options::recursive);
      FaultyFileSystem files(fresh_removed());
      files.fail_at(k, FaultyFileSystem::Fault::crash);
      try {
        write_checkpoint(files, folder_, {.step = 20, .plan = "single"}, model, state_of(model, 20));
        remove_old_checkpoints(files, folder_, keep_one);
        crashed = false;
      } catch (const FaultyFileSystem::Crash&) {
      }
      operations = files.operations();
      files.lose(loss);
      const int64_t newest = newest_complete(folder_);
      left.insert(newest);
      ASSERT_TRUE(newest == 10 || newest == 20) << newest;
      EXPECT_TRUE(crashed || newest == 20);
      expect_same(read_checkpoint(at_step(newest), model).state, state_of(model, newest));
      write(30);
      EXPECT_EQ(newest_complete(folder_), 30);
      for (const std::string& name : names_in(folder_)) EXPECT_FALSE(name.ends_with(kUnfinished)) << name;
    }
    EXPECT_GT(operations, 20);
    EXPECT_THAT(left, ElementsAre(10, 20)) << "a crash came always too early or always too late";
  }
}

/// As above, where the new checkpoint replaces one of the same step.
TEST_F(Checkpoints, ACrashWhileOneIsReplacedLeavesTheOldOneOrTheNewOne) {
  const Model model = mlp();
  write(20);
  const fs::path before = root_ / "before";
  fs::copy(folder_, before, fs::copy_options::recursive);
  for (const Loss loss : {Loss::nothing, Loss::bytes, Loss::bytes_to_zeros, Loss::names, Loss::bytes_and_names}) {
    std::set<int64_t> left;
    bool crashed = true;
    for (int64_t k = 0; crashed; ++k) {
      SCOPED_TRACE(::testing::Message() << "operation " << k << ", loss " << int(loss));
      fs::remove_all(folder_);
      fs::copy(before, folder_, fs::copy_options::recursive);
      FaultyFileSystem files(fresh_removed());
      files.fail_at(k, FaultyFileSystem::Fault::crash);
      try {
        write_checkpoint(files, folder_, {.step = 20, .plan = "single"}, model, state_of(model, 21));
        crashed = false;
      } catch (const FaultyFileSystem::Crash&) {
      }
      files.lose(loss);
      const std::vector<FoundCheckpoint> found = find_checkpoints(folder_);
      ASSERT_FALSE(found.empty());
      for (const FoundCheckpoint& one : found) {
        ASSERT_EQ(one.step, 20);
        const TrainingState state = read_checkpoint(one.path, model).state;
        expect_same(state, state_of(model, state.updates));
        left.insert(state.updates);
      }
      write(20);
      EXPECT_EQ(names_in(folder_), std::vector<std::string>{checkpoint_name(20)});
      EXPECT_EQ(read_checkpoint(at_step(20), model).state.updates, 20);
    }
    EXPECT_THAT(left, ElementsAre(20, 21)) << "a crash came always too early or always too late";
  }
}

TEST_F(Checkpoints, AWrittenOneSurvivesACrash) {
  const Model model = mlp();
  for (const Loss loss : {Loss::nothing, Loss::bytes, Loss::bytes_to_zeros, Loss::names, Loss::bytes_and_names}) {
    FaultyFileSystem files(fresh_removed());
    write_checkpoint(files, folder_, {.step = 20}, model, state_of(model, 20));
    files.lose(loss);
    EXPECT_EQ(newest_complete(folder_), 20) << int(loss);
    fs::remove_all(at_step(20));
  }
}

TEST_F(Checkpoints, AFullDiskLeavesTheOldOne) {
  const Model model = mlp();
  write(10);
  bool full = true;
  for (int64_t k = 0; full; ++k) {
    FaultyFileSystem files(fresh_removed());
    files.fail_at(k, FaultyFileSystem::Fault::full_disk);
    try {
      write_checkpoint(files, folder_, {.step = 20}, model, state_of(model, 20));
      full = false;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("No space left"));
      clean_up(files, folder_);
      EXPECT_THAT(names_in(folder_), ElementsAre(checkpoint_name(10)));
    }
  }
  EXPECT_EQ(newest_complete(folder_), 20);
}

TEST_F(Checkpoints, TheNewestAndTheBestAreKept) {
  const Model model = mlp();
  const auto kept_after = [&](CheckpointSpec spec, const std::vector<std::pair<int64_t, double>>& values) {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    for (const auto& [step, value] : values) {
      FaultyFileSystem files(fresh_removed());
      CheckpointIndex index{
          .step = step, .test_loss = value, .metrics = {{"accuracy", value}, {"perplexity", value}}, .best = spec.best};
      if (value < 0) index.test_loss.reset(), index.metrics.clear();  // no evaluation
      write_checkpoint(files, folder_, index, model, state_of(model, step));
      remove_old_checkpoints(files, folder_, spec);
    }
    std::vector<int64_t> steps;
    for (const FoundCheckpoint& found : find_checkpoints(folder_)) steps.push_back(found.step);
    return steps;
  };
  const std::vector<std::pair<int64_t, double>> values{{1, 0.5}, {2, 0.9},           {3, 0.2},         {4, 0.2},
                                                       {5, 0.7}, {100'000'000, 0.6}, {100'000'001, -1}};
  CheckpointSpec spec{.every = {1, Length::Unit::steps}, .keep = 2, .best = {}, .folder = {}, .where = {}};
  EXPECT_THAT(kept_after(spec, values), ElementsAre(100'000'000, 100'000'001));
  spec.best = "accuracy";
  EXPECT_THAT(kept_after(spec, values), ElementsAre(2, 100'000'000, 100'000'001));
  for (const char* lower_is_better : {"loss", "perplexity"}) {
    spec.best = lower_is_better;
    EXPECT_THAT(kept_after(spec, values), ElementsAre(3, 100'000'000, 100'000'001)) << lower_is_better;
  }
  spec.keep = 0;
  EXPECT_EQ(kept_after(spec, values).size(), values.size());
}

TEST_F(Checkpoints, DamageIsFoundAndNamed) {
  const Model model = mlp();
  const CheckpointIndex index = write(10);
  const fs::path pristine = root_ / "pristine";
  fs::copy(at_step(10), pristine, fs::copy_options::recursive);
  const auto anew = [&] {
    fs::remove_all(at_step(10));
    fs::copy(pristine, at_step(10), fs::copy_options::recursive);
  };
  const auto expect_damage = [&](const std::vector<std::string>& parts) {
    expect_error(Blame::user, parts, [&] { verify_checkpoint(at_step(10)); });
    expect_error(Blame::user, parts, [&] { read_checkpoint(at_step(10), model); });
    anew();
  };
  for (const CheckpointFile& file : index.files) {
    const fs::path path = at_step(10) / file.name;
    fs::resize_file(path, uint64_t(file.bytes - 1));
    expect_damage(
        {path.string(), std::to_string(file.bytes - 1), std::to_string(file.bytes), "cut short", "checkpoints verify"});
    fs::remove(path);
    expect_damage({path.string(), "missing", "checkpoints verify"});
    for (const int64_t byte : {int64_t{0}, file.bytes / 2, file.bytes - 1}) {
      std::string bytes = read_file(path);
      bytes[size_t(byte)] = char(bytes[size_t(byte)] ^ 16);
      std::ofstream(path, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
      expect_damage({path.string(), "CRC-32", "changed after it was written"});
    }
  }
  const fs::path itself = at_step(10) / kCheckpointIndex;
  fs::remove(itself);
  expect_damage({itself.string(), "cannot be read"});
  fs::resize_file(itself, fs::file_size(itself) / 2);
  expect_damage({itself.string(), "not valid JSON"});
  std::string text = read_file(itself);
  text.replace(text.find("\"step\": 10"), 10, "\"step\": 11");
  std::ofstream(itself) << text;
  expect_damage({itself.string(), "CRC-32", "changed after it was written"});
  std::ofstream(itself) << "[]";
  expect_damage({itself.string(), "not the index of a checkpoint"});
  verify_checkpoint(at_step(10));
}

TEST_F(Checkpoints, OfAnotherModelIsRefused) {
  write(10, mlp(8));
  expect_error(Blame::user, {checkpoint_name(10), "model mlp", "other layers, shapes or edges", "model.weights"},
               [&] { read_checkpoint(at_step(10), mlp(9)); });
}

TEST_F(Checkpoints, WithoutAPartOfWhatPowerSgdKeepsIsRefused) {
  const Model model = mlp();
  const TrainingState good = state_of(model, 1);
  const std::string name = good.errors.begin()->first, factor = good.factors.begin()->first;
  EXPECT_EQ(parameter_of_factor(factor), name);
  EXPECT_EQ(parameter_of_factor("none"), "");
  int64_t step = 0;
  const auto expect_refused = [&](const std::function<void(TrainingState&)>& damage,
                                  const std::vector<std::string>& parts) {
    TrainingState state = good;
    damage(state);
    FaultyFileSystem files(fresh_removed());
    write_checkpoint(files, folder_, {.step = ++step}, model, state);
    expect_error(Blame::user, parts, [&] { read_checkpoint(at_step(step), model); });
  };
  expect_refused([&](TrainingState& state) { state.factors.erase(factor); },
                 {checkpoint_name(1), "factor/" + name, "it is missing"});
  expect_refused([&](TrainingState& state) { state.errors.erase(name); }, {"error/" + name, "it is missing"});
  expect_refused([&](TrainingState& state) { state.errors[name] = at::zeros({3}); },
                 {"error/" + name, "it has another shape"});
  expect_refused([](TrainingState& state) { state.errors["odd"] = at::zeros({3}); },
                 {"error/odd", "the model has no such parameter"});
}

TEST_F(Checkpoints, WhatIsNotFiniteIsFound) {
  const Model model = with_statistics();
  const TrainingState state = state_of(model, 1);
  EXPECT_EQ(not_finite(state), "");
  const auto expect_found = [&](TrainingState broken, at::Tensor tensor, const std::string& name) {
    const at::Tensor before = tensor.clone();
    for (double value : {NAN, INFINITY}) {
      tensor.view(-1)[tensor.numel() - 1].fill_(value);
      EXPECT_THAT(not_finite(broken), ::testing::HasSubstr(name));
    }
    tensor.copy_(before);
  };
  const std::string name = model.parameters().back().name;
  expect_found(state, state.weights.at(name), name);
  expect_found(state, state.optimizer.at(name)[1], name);
  expect_found(state, state.buffers.begin()->second, state.buffers.begin()->first);
  expect_found(state, state.errors.begin()->second, "PowerSGD keeps of " + state.errors.begin()->first);
  expect_found(state, state.factors.begin()->second, "PowerSGD keeps of " + state.factors.begin()->first);
  EXPECT_EQ(not_finite(state), "");
}

TEST_F(Checkpoints, PathsWithoutCheckpoints) {
  expect_error(Blame::user, {"no checkpoints", "no such folder"}, [&] { checkpoint_folder_of(root_ / "nowhere"); });
  expect_error(Blame::user, {"no checkpoints", "neither the folder of a run"}, [&] { checkpoint_folder_of(removed_); });
  write(10);
  EXPECT_EQ(checkpoint_folder_of(root_), folder_);
  EXPECT_EQ(checkpoint_folder_of(folder_), folder_);
  EXPECT_TRUE(is_checkpoint(at_step(10)));
  EXPECT_FALSE(is_checkpoint(folder_));
}

}  // namespace
}  // namespace trireme::test_support
