// Training in processes that share no memory: the same weights and losses as in threads, and per device the bytes that ZeRO's
// formulas say.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <sstream>

#include "../train/equivalence.h"
#include "base/memory.h"
#include "children.h"
#include "comm/gloo/gloo.h"
#include "program/compile.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

using testing::ChildEnd;
using testing::Children;
using testing::ChildTask;
using testing::kBatch;
using testing::kClasses;
using testing::ragged_batches;
using testing::random_batches;

constexpr double kTolerance = 1e-12;
constexpr double kLearningRate = 0.02;
constexpr double kTimeLimit = 40;

WorkerOptions worker_options() {
  WorkerOptions options{.seed = 3, .batch_norm = BatchNormScope::global};
  options.optimizer.momentum = 0.9;
  return options;
}

Program program_of(const Model& model, const std::string& strategy, int devices) {
  const Plan plan = named_plan(strategy, model, Cluster::uniform(devices), kBatch, {});
  return compile(model, plan, {.batch_norm = BatchNormScope::global, .private_replicas = true});
}

std::unique_ptr<Communicator> world_of(const ChildTask& task) {
  return gloo_communicator({.rank = task.rank,
                            .size = task.size,
                            .store_file = task.meeting(),
                            .timeout_seconds = kTimeLimit,
                            .device = task.rank});
}

// ---- what the children do ----

/// words: model, strategy. Trains over the ragged batches in double; writes the losses and what it holds of every bucket.
int train_role(const ChildTask& task) {
  at::set_num_threads(1);
  const Model model = testing::small_model(task.words.at(0));
  const Program program = program_of(model, task.words.at(1), task.size);
  const auto batch_of = random_batches(model, ragged_batches());
  Worker worker(task.rank, model, &program, nullptr, Precision::fp64, world_of(task), worker_options());
  std::ofstream file(task.folder + "/result_" + std::to_string(task.rank), std::ios::binary);
  const auto write = [&](const void* data, size_t bytes) {
    file.write(static_cast<const char*>(data), std::streamsize(bytes));
  };
  for (size_t step = 0; step < ragged_batches().size(); ++step) {
    const StepOutcome outcome = worker.train({.step = int64_t(step),
                                              .batch = batch_of(int64_t(step)),
                                              .learning_rate = kLearningRate,
                                              .starts_stream = step == 0});
    write(&outcome.loss_sum, sizeof outcome.loss_sum);
  }
  worker.drain();
  worker.settle();
  worker.barrier();
  for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b) {
    const std::vector<int>& holders = program.buckets[size_t(b)].holders;
    if (std::find(holders.begin(), holders.end(), task.rank) == holders.end()) continue;
    for (const ReplicaPiece& piece : worker.replicas().pieces(b)) {
      const at::Tensor values = piece.master.contiguous();
      const int64_t head[] = {b, piece.range.begin, piece.range.end};
      write(head, sizeof head);
      write(values.data_ptr(), values.nbytes());
    }
  }
  worker.barrier();
  return file.good() ? 0 : 1;
}

Model large_model() { return make_model({"mlp", {200}, kClasses, {{"hidden", 1024}, {"depth", 2}}}); }

/// words: strategy. Prints the bytes that stay on its device after a step.
int memory_role(const ChildTask& task) {
  install_memory_accounting();
  at::set_num_threads(1);
  const Model model = large_model();
  const Program program = program_of(model, task.words.at(0), task.size);
  const auto batch_of = random_batches(model, {kBatch});
  const DeviceScope device(task.rank);
  Worker worker(task.rank, model, &program, nullptr, Precision::fp32, world_of(task), worker_options());
  for (int64_t step = 0; step < 2; ++step) {
    Batch batch = batch_of(step);
    batch.load = [load = batch.load](Range range) {
      std::vector<at::Tensor> inputs = load(range);
      return std::vector<at::Tensor>{inputs[0].to(at::kFloat), inputs[1]};
    };
    worker.train({.step = step, .batch = batch, .learning_rate = kLearningRate, .starts_stream = step == 0});
  }
  worker.settle();
  worker.barrier();
  const MemoryUse use = memory_use(task.rank);
  for (const MemoryCategory category : {MemoryCategory::weights, MemoryCategory::gradients, MemoryCategory::optimizer})
    std::cout << use.current[size_t(category)] << " ";
  std::cout << std::endl;
  return 0;
}

// ---- what the parent expects ----

/// Every bucket as the parameters of `snapshot` say.
std::vector<at::Tensor> buckets_of(const Program& program, const Snapshot& snapshot) {
  std::vector<at::Tensor> buckets;
  for (const Bucket& bucket : program.buckets) {
    at::Tensor flat = at::zeros({bucket.elements}, at::kDouble);
    for (const ParameterShard& shard : bucket.shards) {
      at::Tensor values = snapshot.parameters[size_t(shard.parameter)];
      for (size_t dim = 0; dim < shard.box.size(); ++dim)
        values = values.narrow(int64_t(dim), shard.box[dim].begin, shard.box[dim].size());
      ParameterStore::view_of(flat, shard).copy_(values);
    }
    buckets.push_back(flat);
  }
  return buckets;
}

/// Compares one child's file and marks what it holds in `held`; adds its losses to `losses`.
void check_result(const std::string& path, const std::vector<at::Tensor>& expected, std::vector<at::Tensor>& held,
                  std::vector<double>& losses) {
  std::ifstream file(path, std::ios::binary);
  for (double& loss : losses) {
    double part = 0;
    ASSERT_TRUE(file.read(reinterpret_cast<char*>(&part), sizeof part));
    loss += part;
  }
  int64_t head[3];
  while (file.read(reinterpret_cast<char*>(head), sizeof head)) {
    const size_t bucket = size_t(head[0]);
    const int64_t begin = head[1], length = head[2] - begin;
    at::Tensor values = at::empty({length}, at::kDouble);
    ASSERT_TRUE(file.read(static_cast<char*>(values.data_ptr()), std::streamsize(values.nbytes())) || length == 0);
    const double largest = expected.at(bucket).abs().max().item<double>();
    if (length > 0) {
      EXPECT_LE((values - expected[bucket].narrow(0, begin, length)).abs().max().item<double>(), kTolerance * largest)
          << path << ", bucket " << bucket;
    }
    held[bucket].narrow(0, begin, length).fill_(1);
  }
}

struct Case {
  std::string model, strategy;
  int processes;
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.model << " " << c.strategy << " " << c.processes;
}

class TrainProcesses : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!gloo_available()) GTEST_SKIP() << "this build has no gloo";
  }
};
INSTANTIATE_TEST_SUITE_P(Plans, TrainProcesses,
                         ::testing::Values(Case{"mlp", "data", 2}, Case{"convnet", "data", 4}, Case{"mlp", "zero1", 4},
                                           Case{"mlp", "zero2", 2}, Case{"convnet", "zero2", 4},
                                           Case{"mlp", "zero3", 4}, Case{"resnet-bn", "zero3", 2},
                                           Case{"mlp", "data=2,pipeline=2,schedule=1f1b,micro_batches=3", 4}));

TEST_P(TrainProcesses, GiveTheWeightsAndLossesOfThreads) {
  const auto& [model_name, strategy, processes] = GetParam();
  Children children("train", processes, {model_name, strategy});

  const Model model = testing::small_model(model_name);
  const Program program = program_of(model, strategy, processes);
  const std::vector<int64_t> batches = ragged_batches();
  LockstepOptions options;
  options.steps = int64_t(batches.size());
  options.precision = Precision::fp64;
  options.worker = worker_options();
  options.learning_rate = kLearningRate;
  const std::vector<Snapshot> expected =
      run_lockstep(model, named_plan(strategy, model, Cluster::uniform(processes), kBatch, {}),
                   random_batches(model, batches), options);

  for (const ChildEnd& end : children.wait(kTimeLimit))
    ASSERT_EQ(end.exit_code, 0) << end.output << " signal " << end.signal;
  const std::vector<at::Tensor> buckets = buckets_of(program, expected.back());
  std::vector<at::Tensor> held;
  for (const at::Tensor& bucket : buckets) held.push_back(at::zeros_like(bucket));
  std::vector<double> losses(batches.size());
  for (int rank = 0; rank < processes; ++rank)
    check_result(children.folder() + "/result_" + std::to_string(rank), buckets, held, losses);
  for (const at::Tensor& marks : held) EXPECT_TRUE(marks.all().item<bool>());
  for (size_t step = 0; step < batches.size(); ++step)
    EXPECT_NEAR(losses[step] / double(batches[step]), expected[step].loss, kTolerance * std::abs(expected[step].loss));
}

class MemoryOfProcesses : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Plans, MemoryOfProcesses, ::testing::Values("data", "zero1", "zero2", "zero3"));

TEST_P(MemoryOfProcesses, IsAsTheFormulasSay) {
  if (!gloo_available()) GTEST_SKIP() << "this build has no gloo";
  constexpr int kProcesses = 2;
  const std::string& strategy = GetParam();
  Children children("memory", kProcesses, {strategy});
  double parameters = 0;
  const Model model = large_model();
  for (const ProgramParameter& parameter : program_of(model, strategy, kProcesses).parameters)
    parameters += double(element_count(parameter.spec.shape));
  ASSERT_GE(parameters, 1e6);

  // 4 bytes an element; momentum keeps one state tensor
  const double whole = 4 * parameters, part = whole / kProcesses;
  const double weights = strategy == "zero3" ? part : whole;
  const double gradients = strategy == "zero2" || strategy == "zero3" ? part : whole;
  const double optimizer = strategy == "data" ? whole : part;
  for (const ChildEnd& end : children.wait(kTimeLimit)) {
    ASSERT_EQ(end.exit_code, 0) << end.output;
    std::istringstream words(end.output);
    double measured[3] = {};
    ASSERT_TRUE(words >> measured[0] >> measured[1] >> measured[2]) << end.output;
    EXPECT_NEAR(measured[0], weights, 0.05 * weights);
    EXPECT_NEAR(measured[1], gradients, 0.05 * gradients);
    EXPECT_NEAR(measured[2], optimizer, 0.05 * optimizer);
  }
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  return trireme::testing::process_main(argc, argv, {{"train", trireme::train_role}, {"memory", trireme::memory_role}});
}
