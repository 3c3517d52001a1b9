// Experiment files: their keys, defaults and overrides, and the errors of wrong ones.
#include "experiment/read_experiment.h"
#include "experiment/run_device.h"
#include "experiment/run_spec.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "../base/expect_error.h"

namespace trireme {
namespace {

class ExperimentFile : public ::testing::Test {
 protected:
  ExperimentFile() : file_(std::filesystem::temp_directory_path() / "trireme_experiment_test.toml") {}
  ~ExperimentFile() override { std::filesystem::remove(file_); }

  Experiment read(const std::string& top, const std::string& optimizer = "",
                  const ExperimentOverrides& overrides = {}) {
    std::ofstream(file_)
        << top << "\n[model]\nname = \"mlp\"\n[model.options]\nhidden = 8\n[data]\nname = \"digits\"\n[optimizer]\n"
        << optimizer << "\n";
    return read_experiment(file_, overrides);
  }
  void refuse(const std::vector<std::string>& parts, const std::string& top, const std::string& optimizer = "",
              const ExperimentOverrides& overrides = {}) {
    expect_error(Blame::user, parts, [&] { read(top, optimizer, overrides); });
  }
  std::filesystem::path file_;
};

TEST_F(ExperimentFile, Links) {
  EXPECT_FALSE(read("").links);
  const Experiment e = read(R"(adapt = true
[cluster.link]
bandwidth = "1 Gbit/s"
latency = "100 us"
[[cluster.link.change]]
at_step = 200
bandwidth = "50 Mbit/s"
[[cluster.link.change]]
at_step = 300
latency = "1 ms")");
  EXPECT_TRUE(e.adapt);
  EXPECT_TRUE(e.private_replicas) << "one copy of the weights would hide the links";
  ASSERT_TRUE(e.links);
  EXPECT_EQ(e.links->at_first.bandwidth, 125e6);
  EXPECT_DOUBLE_EQ(e.links->at_first.latency, 1e-4);
  ASSERT_EQ(e.links->changes.size(), 2u);
  EXPECT_EQ(e.links->changes[0].at_step, 200);
  EXPECT_DOUBLE_EQ(e.links->changes[0].speed.bandwidth, 6.25e6);
  EXPECT_DOUBLE_EQ(e.links->changes[0].speed.latency, 1e-4) << "as before";
  EXPECT_DOUBLE_EQ(e.links->changes[1].speed.bandwidth, 6.25e6);
  refuse({"replicas", "share one copy"}, "replicas = \"shared\"\n[cluster.link]\nlatency = \"1 ms\"");
  refuse({"bandwidth", "no data would ever arrive"}, "[cluster.link]\nbandwidth = \"0 Gbit/s\"");
  refuse({"at_step", "step 5"}, "[[cluster.link.change]]\nat_step = 5\n[[cluster.link.change]]\nat_step = 5");
  refuse({"bandwith", "bandwidth"}, "[cluster.link]\nbandwith = \"1 Gbit/s\"");
}

TEST_F(ExperimentFile, Checkpoints) {
  EXPECT_FALSE(read("").checkpoint.wanted());
  const CheckpointSpec by_epoch = read("[checkpoint]\nevery = \"0.5 epochs\"").checkpoint;
  EXPECT_TRUE(by_epoch.wanted());
  EXPECT_EQ(std::tuple(by_epoch.every.count, by_epoch.keep, by_epoch.best, by_epoch.folder, by_epoch.ends_on_failure),
            std::tuple(0.5, 3, "", "", false));
  const CheckpointSpec full =
      read("[checkpoint]\nevery = \"500 steps\"\nkeep = 0\nbest = \"loss\"\nfolder = \"/else\"\non_failure = \"end\"")
          .checkpoint;
  EXPECT_EQ(std::tuple(full.every.count, full.keep, full.best, full.folder, full.ends_on_failure),
            std::tuple(500., 0, "loss", "/else", true));
  EXPECT_EQ(int(full.every.unit), int(Length::Unit::steps));
  refuse({"checkpoint.every: is missing; ", "1 epochs"}, "[checkpoint]\nkeep = 2");
  refuse({"checkpoint.every", "0 steps"}, "[checkpoint]\nevery = \"0 steps\"");
  refuse({"checkpoint.keep", "-1"}, "[checkpoint]\nevery = \"1 epochs\"\nkeep = -1");
  refuse({"checkpoint.on_failure", "go on, end"}, "[checkpoint]\nevery = \"1 epochs\"\non_failure = \"stop\"");
  refuse({"checkpoint.evry", "every"}, "[checkpoint]\nevery = \"1 epochs\"\nevry = 2");
}

TEST_F(ExperimentFile, WorkersAndMemoryThatChange) {
  const Experiment e = read(R"(devices = [2, 4]
device_memory = "1 GiB"
[[cluster.worker.change]]
worker = 1
at_step = 20
slower = 3
[[cluster.worker.change]]
worker = 3
at_step = 20
slower = 1.5
[[cluster.worker.change]]
worker = 1
at_step = 30
slower = 1
[[cluster.memory.change]]
at_step = 10
limit = "300 MiB")");
  EXPECT_FALSE(e.private_replicas);
  ASSERT_EQ(e.worker_changes.size(), 3u);
  EXPECT_EQ(slowness_at(e.worker_changes, 1, 19), 1);
  EXPECT_EQ(slowness_at(e.worker_changes, 1, 20), 3);
  EXPECT_EQ(slowness_at(e.worker_changes, 1, 30), 1);
  EXPECT_EQ(slowness_at(e.worker_changes, 3, 1000), 1.5);
  EXPECT_EQ(slowness_at(e.worker_changes, 0, 1000), 1);
  EXPECT_EQ(memory_limit_at(e.memory_changes, e.device_memory, 9), 1 << 30);
  EXPECT_EQ(memory_limit_at(e.memory_changes, e.device_memory, 10), 300 << 20);
  const std::string change = "devices = 2\n[[cluster.worker.change]]\nat_step = 5\n";
  refuse({"worker", "2 workers are counted from 0 to 1"}, change + "worker = 2\nslower = 2");
  refuse({"slower", "at least 1"}, change + "worker = 1\nslower = 0.5");
  refuse({"slower"}, change + "worker = 1");
  refuse({"at_step", "step 5"},
         change + "worker = 1\nslower = 2\n[[cluster.worker.change]]\nat_step = 4\nworker = 0\nslower = 2");
  refuse({"limit", "missing"}, "[[cluster.memory.change]]\nat_step = 5");
  refuse({"limit", "no tensor fits"}, "[[cluster.memory.change]]\nat_step = 5\nlimit = \"0 B\"");
}

TEST_F(ExperimentFile, Everything) {
  const Experiment e = read(R"(
name = "all"
seed = 7
batch = 64
length = "3 epochs"
evaluate_every = "50 steps"
target = 0.98
label_smoothing = 0.1
precision = "bf16"
batch_norm = "global"
strategies = ["single", "hybrid"]
devices = [2, 4]
time_limit = "2 min"
device_memory = "2 GiB"
micro_batches = 6)",
                            R"(kind = "adamw"
learning_rate = 0.002
beta1 = 0.8
beta2 = 0.99
epsilon = 1e-6
weight_decay = 0.1
clip_norm = 1.5
schedule = "cosine"
warmup = "0.5 epochs")");
  EXPECT_EQ(e.name, "all");
  EXPECT_EQ(e.seed, 7u);
  EXPECT_EQ(e.batch, 64);
  EXPECT_EQ(e.length.count, 3);
  EXPECT_EQ(e.evaluate_every.unit, Length::Unit::steps);
  EXPECT_EQ(e.target, 0.98);
  EXPECT_EQ(e.label_smoothing, 0.1);
  EXPECT_EQ(e.precision, Precision::bf16);
  EXPECT_EQ(e.batch_norm, BatchNormScope::global);
  EXPECT_EQ(e.strategies, (std::vector<std::string>{"single", "hybrid"}));
  EXPECT_EQ(e.devices, (std::vector<int>{2, 4}));
  EXPECT_EQ(e.time_limit, 120);
  EXPECT_EQ(e.device_memory, int64_t{2} << 30);
  EXPECT_EQ(e.micro_batches, 6);
  EXPECT_EQ(e.model_name, "mlp");
  EXPECT_EQ(e.model_options.at("hidden"), 8);
  EXPECT_EQ(e.data.name, "digits");
  EXPECT_EQ(e.data.seed, 7u);
  EXPECT_EQ(e.optimizer.kind, &kAdamW);
  EXPECT_EQ(e.optimizer.beta1, 0.8);
  EXPECT_EQ(e.optimizer.weight_decay, 0.1);
  EXPECT_EQ(e.clip_norm, 1.5);
  EXPECT_EQ(e.schedule.kind, LearningRateSchedule::Kind::cosine);
  EXPECT_EQ(e.schedule.warmup.count, 0.5);
}

TEST_F(ExperimentFile, Defaults) {
  const Experiment e = read("");
  EXPECT_EQ(e.name, "trireme_experiment_test");
  EXPECT_EQ(e.batch, 128);
  EXPECT_EQ(e.precision, Precision::fp32);
  EXPECT_FALSE(e.target || e.loading_threads);
  EXPECT_EQ(e.label_smoothing, 0);
  EXPECT_EQ(e.beam, 1);
  EXPECT_EQ(e.threads, 1);
  EXPECT_TRUE(e.device_threads.empty());
  EXPECT_TRUE(e.device_speeds.empty() && e.frozen.empty());
  EXPECT_FALSE(e.private_replicas);
  EXPECT_EQ(cluster_of(e, 2).devices[0].speed, 1);
  EXPECT_EQ(e.optimizer.kind, &kSgd);
  EXPECT_EQ(e.clip_norm, 0);
}

TEST_F(ExperimentFile, DevicesAndReplicas) {
  const Experiment e = read(
      "devices = [2, 3]\ndevice_threads = [2, 1, 4]\ndevice_speeds = [1.0, 0.5, 2]\nreplicas = \"private\"\n"
      "frozen = [\"fc1.weight\", \"fc2.*\"]\nbatch_norm = \"deferred\"\ndevice_memory = \"1 MiB\"");
  EXPECT_EQ(e.device_threads, (std::vector<int>{2, 1, 4}));
  EXPECT_EQ(e.device_speeds, (std::vector<double>{1, 0.5, 2}));
  EXPECT_TRUE(e.private_replicas);
  EXPECT_EQ(e.frozen, (std::vector<std::string>{"fc1.weight", "fc2.*"}));
  EXPECT_EQ(e.batch_norm, BatchNormScope::deferred);
  const Cluster two = cluster_of(e, 2);
  ASSERT_EQ(two.size(), 2);
  EXPECT_EQ(two.devices[0].speed, 1);
  EXPECT_EQ(two.devices[1].speed, 0.5);
  EXPECT_EQ(two.devices[1].memory, 1 << 20);
  EXPECT_EQ(threads_of(e, 3), (std::vector<int>{2, 1, 4}));
  expect_error(Blame::user, {file_.string(), "device_threads: lists 3 of 4 devices"}, [&] { cluster_of(e, 4); });
  const CompileOptions options = compile_options(RunSpec{e}, true);
  EXPECT_TRUE(options.training && options.private_replicas);
  EXPECT_EQ(options.frozen, e.frozen);
  EXPECT_EQ(options.batch_norm, BatchNormScope::deferred);
  EXPECT_FALSE(options.clip_gradients || options.mixed_precision || compile_options(RunSpec{e}, false).training);
}

TEST_F(ExperimentFile, FrozenParametersAreThoseOfTheFileAndOfTheModel) {
  RunSpec run{read("frozen = [\"fc1.weight\"]")};
  run.model_findings.frozen = {"buffer"};
  EXPECT_EQ(frozen_of(run), (std::vector<std::string>{"fc1.weight", "buffer"}));
  EXPECT_EQ(compile_options(run, true).frozen, frozen_of(run));
  EXPECT_EQ(run.frozen, (std::vector<std::string>{"fc1.weight"})) << "as written";
}

TEST_F(ExperimentFile, SpeedsFollowThreads) {
  Experiment e = read("device_threads = [2, 1]");
  EXPECT_EQ(cluster_of(e, 2).devices[0].speed, 2);
  EXPECT_EQ(cluster_of(e, 2).devices[1].speed, 1);
  EXPECT_EQ(cluster_of(e, 1).size(), 1);
  e = read("device_threads = [2]");  // a list, even of length one, has one number per worker
  expect_error(Blame::user, {file_.string(), "device_threads: lists 1 of 2 devices"}, [&] { threads_of(e, 2); });
  e = read("device_threads = 3");
  EXPECT_EQ(threads_of(e, 2), (std::vector<int>{3, 3}));
  EXPECT_EQ(cluster_of(e, 2).devices[0].speed, cluster_of(e, 2).devices[1].speed);
  e = read("device_speeds = [1, 2]");
  EXPECT_EQ(threads_of(e, 3), (std::vector<int>{1, 1, 1}));
  expect_error(Blame::user, {file_.string(), "device_speeds: lists 2 of 3 devices", "fewer devices"},
               [&] { cluster_of(e, 3); });
}

TEST_F(ExperimentFile, TextHasASequence) {
  std::ofstream(file_)
      << "[model]\nname = \"lstm-lm\"\n[data]\nname = \"generated-text\"\nsequence = 20\n[optimizer]\n";
  EXPECT_EQ(read_experiment(file_, {}).data.sequence, 20);
  const auto with = [this](const char* set) { return [this, set] { read_experiment(file_, {.set = {set}}); }; };
  expect_error(Blame::user, {"sequence", "digits is not a text"}, with("data.name=digits"));
  expect_error(Blame::user, {"sequence", "at least 1 token"}, with("data.sequence=0"));
}

TEST_F(ExperimentFile, SaysWhereAKeyWasGiven) {
  const Experiment written = read("adapt = true");
  EXPECT_EQ(written.where("adapt"), file_.string() + ":1: adapt");
  EXPECT_EQ(written.where("elastic"), file_.string() + ": elastic");
  EXPECT_EQ(read("", "", {.set = {"adapt=true"}}).where("adapt"), "--set adapt=true");
  EXPECT_EQ(Experiment{}.where("adapt"), ": adapt") << "nothing was read";
}

TEST_F(ExperimentFile, TablesOfDataAndTranslation) {
  ExperimentOverrides o;
  o.set = {"data.workers=3", "translation.beam=4", "translation.length_penalty=1.5"};
  const Experiment e = read("", "", o);
  EXPECT_EQ(e.loading_threads, 3);
  EXPECT_EQ(e.beam, 4);
  EXPECT_EQ(e.length_penalty, 1.5);
  for (const auto& [set, parts] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"data.workers=-1", {"at least 0"}},
           {"data.workers=5000", {"5000 threads", "0 to 1024"}},
           {"translation.beam=0", {"at least 1"}},
           {"translation.length_penalty=-1", {"at least 0"}}}) {
    o.set = {set};
    SCOPED_TRACE(set);
    refuse(parts, "", "", o);
  }
}

/// A data set without samples; tests only ask for its task and shape.
class EmptySet final : public Dataset {
 public:
  EmptySet(LearningTask task, int64_t vocabulary) : task_(task), vocabulary_(vocabulary) {}
  int64_t size() const override { return 0; }
  Shape sample_shape() const override { return {8}; }
  Shape target_shape() const override { return task_ == LearningTask::classification ? Shape{} : Shape{8}; }
  LearningTask task() const override { return task_; }
  int64_t classes() const override { return 8; }
  int64_t vocabulary() const override { return vocabulary_; }
  Samples get(std::span<const int64_t>, const Draw&) const override { return {}; }

 private:
  LearningTask task_;
  int64_t vocabulary_;
};

TaskData data_for(LearningTask task, int64_t vocabulary = 0) {
  TaskData data;
  data.train = data.test = std::make_shared<EmptySet>(task, vocabulary);
  return data;
}

TEST_F(ExperimentFile, ModelsMustFitTheTask) {
  RunSpec e{read("")};
  EXPECT_EQ(build_model(e, data_for(LearningTask::classification)).node(1).sample_shape, Shape{});
  EXPECT_EQ(build_model(e, data_for(LearningTask::regression)).node(1).sample_shape, Shape{8});
  expect_error(Blame::user, {"trireme_experiment_test.toml:3: model.name", "mlp", "not for language", "transformer-lm"},
               [&] { build_model(e, data_for(LearningTask::language, 8)); });
  expect_error(Blame::user, {"model.name", "mlp", "reads numbers", "digits holds token ids"},
               [&] { build_model(e, data_for(LearningTask::classification, 8)); });
  e.model_name = "lstm-lm";
  e.model_options = {};
  EXPECT_EQ(build_model(e, data_for(LearningTask::language, 8)).node(1).sample_shape, Shape{8});
  expect_error(Blame::user, {"lstm-lm", "not for segmentation", "digits"},
               [&] { build_model(e, data_for(LearningTask::segmentation)); });
}

TEST_F(ExperimentFile, TargetSmoothingAndBeamMustFitTheTask) {
  RunSpec e{read("target = 98")};
  expect_error(Blame::user, {"target", "98", "accuracy of classification is a share", "0.98"},
               [&] { build_model(e, data_for(LearningTask::classification)); });
  EXPECT_NO_THROW(build_model(e, data_for(LearningTask::regression))) << "an RMSE";
  e = RunSpec{read("label_smoothing = 0.1")};
  EXPECT_NO_THROW(build_model(e, data_for(LearningTask::classification)));
  expect_error(Blame::user, {"label_smoothing", "0.1", "regression does not support it"},
               [&] { build_model(e, data_for(LearningTask::regression)); });
  e = RunSpec{read("")};
  e.beam = 4;
  expect_error(Blame::user, {"translation.beam", "4", "is for classification"},
               [&] { build_model(e, data_for(LearningTask::classification)); });
}

TEST_F(ExperimentFile, SetsInMemoryAreLoadedByTheWorkers) {
  class Decoding final : public Dataset {
    int64_t size() const override { return 0; }
    Shape sample_shape() const override { return {}; }
    int64_t classes() const override { return 1; }
    bool decodes() const override { return true; }
    Samples get(std::span<const int64_t>, const Draw&) const override { return {}; }
  };
  Experiment e = read("");
  EXPECT_EQ(loading_threads_of(e, EmptySet(LearningTask::regression, 0)), 0);
  EXPECT_EQ(loading_threads_of(e, Decoding()), 1);
  e.loading_threads = 3;
  EXPECT_EQ(loading_threads_of(e, EmptySet(LearningTask::regression, 0)), 3);
}

TEST_F(ExperimentFile, Refused) {
  refuse({file_.string(), "bacth"}, "bacth = 3");
  refuse({"trireme_experiment_test.toml:2", "precision", "fp16", "fp32"}, "seed = 1\nprecision = \"fp16\"");
  refuse({"batch", "0", "at least 1"}, "batch = 0");
  refuse({"batch", "many"}, "batch = \"many\"");
  refuse({"seed", "at least 0"}, "seed = -1");
  refuse({"length", "3 parsecs", "epochs"}, "length = \"3 parsecs\"");
  refuse({"length", "more than zero"}, "length = \"0 epochs\"");
  refuse({"evaluate_every", "more than zero"}, "evaluate_every = \"0 steps\"");
  refuse({"time_limit", "2 parsecs"}, "time_limit = \"2 parsecs\"");
  refuse({"device_memory", "2 Gigs", "GiB"}, "device_memory = \"2 Gigs\"");
  refuse({"trireme_experiment_test.toml:1", "target_accuracy", "is now called target", "target = 0.98"},
         "target_accuracy = 0.98");
  refuse({"target", "must be finite"}, "target = inf");
  refuse({"label_smoothing", "below 1"}, "label_smoothing = 1.0");
  refuse({"label_smoothing", "at least 0"}, "label_smoothing = -0.1");
  refuse({"devices", "0"}, "devices = [0]");
  refuse({"devices", "70000", "1 to 65536"}, "devices = [70000]");
  refuse({"batch_norm", "everywhere", "global"}, "batch_norm = \"everywhere\"");
  refuse({"device_threads", "0 threads", "1 to 1024"}, "device_threads = 0");
  refuse({"device_threads", "2000 threads"}, "device_threads = [1, 2000]");
  refuse({"device_threads", "whole numbers"}, "device_threads = [1, \"x\"]");
  refuse({"device_threads", "no number of threads"}, "device_threads = []");
  refuse({"device_speeds", "must be positive"}, "device_speeds = [1, 0]");
  refuse({"replicas", "privat", "did you mean", "private"}, "replicas = \"privat\"");
  refuse({"frozen", "name is empty"}, "frozen = [\"\"]");
  refuse({"frozen", "\"*x\"", "only at the end", "layer1.*"}, "frozen = [\"*x\"]");
  refuse({"batch_norm", "defered", "deferred"}, "batch_norm = \"defered\"");
  refuse({"micro_batches", "at least 0"}, "micro_batches = -1");
  refuse({"kind", "lamp", "did you mean \"lamb\""}, "", "kind = \"lamp\"");
  refuse({"nesterov", "needs momentum"}, "", "nesterov = true\nmomentum = 0");
  refuse({"learning_rate", "at least 0"}, "", "learning_rate = -1");
  refuse({"beta1", "sgd does not take it", "adam, adamw, lamb do"}, "", "beta1 = 0.9");
  refuse({"momentum"}, "", "kind = \"adam\"\nmomentum = 0.9");
  refuse({"beta1", "below 1"}, "", "kind = \"adam\"\nbeta1 = 1.0");
  refuse({"beta2", "below 1"}, "", "kind = \"adam\"\nbeta2 = 1.5");
  refuse({"schedule", "stairs", "cosine"}, "", "schedule = \"stairs\"");
}

TEST_F(ExperimentFile, KeysOfOtherDataSetsNameTheSetsThatTakeThem) {
  ExperimentOverrides o;
  for (const auto& [set, words] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"data.tokenizer=word",
            {"data.tokenizer", "digits does not take it", "sst2, multi30k, labelled-text, parallel-text, text do"}},
           {"data.target=price", {"data.target", "digits does not take it, csv does"}},
           {"data.classes=3", {"data.classes", "tensors does"}},
           {"data.columns.age=numeric", {"data.columns", "csv does"}}}) {
    o.set = {"data.name=digits", set};
    refuse(words, "", "", o);
  }
  o.set = {"data.name=csv", "data.train=x.csv", "data.languages=de,en"};
  refuse({"data.languages", "csv does not take it, multi30k does", "its own keys are", "test_share"}, "", "", o);
}

TEST_F(ExperimentFile, NumbersFarTooLargeAreRefused) {
  ExperimentOverrides o;
  for (const auto& [set, words] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"batch=9223372036854775807", {"batch", "at most 1073741824"}},
           {"data.workers=4294967297", {"data.workers", "4294967297 threads", "0 to 1024"}},
           {"translation.beam=4294967297", {"translation.beam", "1 to 1024"}}}) {
    o.set = {set};
    refuse(words, "", "", o);
  }
  o.set = {"data.name=generated-text", "data.sequence=4294967297"};
  refuse({"data.sequence", "at most 1048576 tokens"}, "", "", o);
  o.set = {"data.name=tiny-imagenet", "data.image_size=0"};
  refuse({"data.image_size", "at least 1 pixel"}, "", "", o);
}

TEST_F(ExperimentFile, BatchPerDevice) {
  const Experiment plain = read("batch = 32");
  EXPECT_EQ(plain.batch_per_device, 0);
  EXPECT_FALSE(awaits_devices(plain));
  EXPECT_EQ(batch_in_words(plain), "");
  const Experiment e = read("batch = \"32 per device\"");
  EXPECT_EQ(e.batch_per_device, 32);
  EXPECT_TRUE(awaits_devices(e));
  ExperimentOverrides o;
  o.set = {"batch=8 per device"};
  EXPECT_EQ(read("batch = 32", "", o).batch_per_device, 8);
  o.set = {"batch=64"};
  EXPECT_FALSE(awaits_devices(read("batch = \"32 per device\"", "", o)));
  for (const char* wrong : {"32", "per device", "32 per worker", "32 per devices", "32 per device each",
                            "3.5 per device", "x per device", "32per device", ""})
    refuse({"batch", "neither a whole number nor one per device", "\"32 per device\""},
           fmt::format("batch = \"{}\"", wrong));
  refuse({"batch", "0 per device", "at least 1"}, "batch = \"0 per device\"");
  refuse({"batch", "-4 per device"}, "batch = \"-4 per device\"");
  refuse({"batch", "at most 1073741824"}, "batch = \"1073741825 per device\"");
}

TEST_F(ExperimentFile, BatchOfARowOnItsDevices) {
  const RunSpec plain{read("batch = 32")};
  EXPECT_EQ(with_batch_on(plain, 4).batch, 32);
  const RunSpec e{read("batch = \"32 per device\"\nmicro_batches = 48")};
  const RunSpec on_four = with_batch_on(e, 4);
  EXPECT_EQ(on_four.batch, 128);
  EXPECT_FALSE(awaits_devices(on_four));
  EXPECT_EQ(batch_in_words(on_four), "128 samples, 32 on each of 4 devices");
  EXPECT_EQ(with_batch_on(on_four, 2).batch, 128) << "once its devices are known";
  expect_error(Blame::user, {"micro_batches", "32 per device on 1 device", "batch of 32"},
               [&] { with_batch_on(e, 1); });
  const RunSpec large{read("batch = \"1073741824 per device\"")};
  EXPECT_EQ(with_batch_on(large, 1).batch, int64_t{1} << 30);
  expect_error(Blame::user, {"batch", "on 2 devices", "2147483648 samples"}, [&] { with_batch_on(large, 2); });
  RunSpec resumed = on_four;
  resumed.batch = 64;
  EXPECT_EQ(batch_in_words(resumed), "64 samples, those of the checkpoint; 32 on each of 4 devices would be 128");
}

TEST_F(ExperimentFile, NamesMissingKeys) {
  std::ofstream(file_) << "[data]\nname = \"digits\"\n";
  expect_error(Blame::user, {file_.string(), "model.name"}, [&] { read_experiment(file_, {}); });
  std::filesystem::remove(file_);
  expect_error(Blame::user, {file_.string()}, [&] { read_experiment(file_, {}); });
}

TEST_F(ExperimentFile, Price) {
  std::ofstream(file_) << "model = \"mlp\"\n[data]\nname = \"digits\"\n";
  EXPECT_EQ(read_experiment(file_, {}).price_per_hour, 0);
  ExperimentOverrides o;
  o.set = {"price.per_hour=0.34", "price.currency=EUR"};
  const Experiment e = read_experiment(file_, o);
  EXPECT_EQ(e.price_per_hour, 0.34);
  EXPECT_EQ(e.currency, "EUR");
  o.set = {"price.per_hour=0"};
  expect_error(Blame::user, {"price.per_hour", "must be positive"}, [&] { read_experiment(file_, o); });
  o.set = {"price.currency=EUR"};
  expect_error(Blame::user, {"price.per_hour", "is missing"}, [&] { read_experiment(file_, o); });
}

TEST_F(ExperimentFile, OverridesOfAModelThatIsOnlyNamed) {
  std::ofstream(file_) << "model = \"unet\"\n[data]\nname = \"digits\"\n";
  EXPECT_EQ(read_experiment(file_, {}).model_where, file_.string() + ":1: model");
  ExperimentOverrides o;
  o.set = {"model.options.width=4"};
  const Experiment e = read_experiment(file_, o);
  EXPECT_EQ(e.model_name, "unet");
  EXPECT_EQ(e.model_options, (std::map<std::string, double>{{"width", 4}}));
  o.set = {"model=mlp", "model.options.hidden=9"};
  EXPECT_EQ(read_experiment(file_, o).model_options, (std::map<std::string, double>{{"hidden", 9}}));
  o.set = {"model.options.wdith=4"};
  expect_error(Blame::user, {"--set model.options.wdith=4", "model unet has no such option", "width"},
               [&] { read_experiment(file_, o); });
}

TEST_F(ExperimentFile, Overrides) {
  ExperimentOverrides o;
  o.set = {"batch=32", "optimizer.learning_rate=0.5", "precision=bf16", "model.options.depth=3"};
  o.seed = 9;
  o.steps = 20;
  o.strategies = {"tensor"};
  o.devices = {3};
  o.data_dir = "/somewhere";
  const Experiment e = read("batch = 64\nseed = 1\nlength = \"2 epochs\"", "", o);
  EXPECT_EQ(e.batch, 32);
  EXPECT_EQ(e.optimizer.learning_rate, 0.5);
  EXPECT_EQ(e.precision, Precision::bf16);
  EXPECT_EQ(e.model_options.at("depth"), 3);
  EXPECT_EQ(e.seed, 9u);
  EXPECT_EQ(e.data.seed, 9u);
  EXPECT_EQ(e.length.unit, Length::Unit::steps);
  EXPECT_EQ(e.length.count, 20);
  EXPECT_EQ(e.strategies, std::vector<std::string>{"tensor"});
  EXPECT_EQ(e.devices, std::vector<int>{3});
  EXPECT_EQ(e.data.data_dir, "/somewhere");
  o = {};
  o.set = {"bacth=3"};
  refuse({"--set bacth=3", "bacth"}, "", "", o);
  o.set = {"batch=0"};
  refuse({"--set batch=0", "at least 1"}, "", "", o);
}

TEST_F(ExperimentFile, MessagesNameTheDeviceAsItWasGiven) {
  ExperimentOverrides flag{.device = "tpu"};
  refuse({"--device tpu", "cpu, cuda"}, "", "", flag);
  flag.device = "cuda";
  expect_error(Blame::user, {"--device cuda: a run of replicas computes on cores; leave it out"},
               [&] { fail_on_gpus(read("", "", flag), "a run of replicas"); });
  expect_error(Blame::user, {"--set device=cuda: ", "write device = \"cpu\""},
               [&] { fail_on_gpus(read("", "", ExperimentOverrides{.set = {"device=cuda"}}), "a run of replicas"); });
}

TEST_F(ExperimentFile, Weights) {
  const auto with = [](const std::vector<std::string>& set) { return ExperimentOverrides{.set = set}; };
  EXPECT_FALSE(read("").initial_weights);
  EXPECT_FALSE(read("").save_weights);
  EXPECT_EQ(read("save_weights = false").save_weights, false);
  const InitialWeights plain = *read("", "", with({"model.weights=a/b.pt"})).initial_weights;
  EXPECT_EQ(plain.path, file_.parent_path() / "a/b.pt") << "beside the experiment";
  EXPECT_EQ(plain.match.rule, MatchOptions::Rule::strict);
  const InitialWeights part = *read("", "",
                                    with({"model.weights=/b.pt", "model.weights_match=partial",
                                          "model.weights_skip=fc.,conv1.", "model.weights_prefix=module."}))
                                   .initial_weights;
  EXPECT_EQ(part.path, "/b.pt");
  EXPECT_EQ(part.match.rule, MatchOptions::Rule::partial);
  EXPECT_EQ(part.match.skip, (std::vector<std::string>{"fc.", "conv1."}));
  EXPECT_EQ(part.match.prefix, "module.");
  refuse({"weights_skip", "no file is named"}, "", "", with({"model.weights_skip=fc."}));
  refuse({"weights_match", "partial"}, "", "", with({"model.weights=a.pt", "model.weights_match=some"}));
  refuse({"weights", "no file"}, "", "", with({"model.weights=\"\""}));
  refuse({"weights_skip", "would skip all tensors"}, "", "", with({"model.weights=a.pt", "model.weights_skip=[\"\"]"}));
}

}  // namespace
}  // namespace trireme
