// Training in processes without shared memory: the same weights and losses as with threads and on one device, and on
// each device the bytes of ZeRO's formulas.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>

#include "../train/equivalence.h"
#include "base/memory.h"
#include "children.h"
#include "comm/gloo/gloo.h"
#include "program/compile.h"
#include "runtime/replicas/flat_shard.h"
#include "runtime/worker.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

using test_support::ChildEnd;
using test_support::Children;
using test_support::ChildTask;
using test_support::expect_same;
using test_support::kBatch;
using test_support::kClasses;
using test_support::ragged_batches;
using test_support::random_batches;

constexpr double kOfThreads = 1e-12;  // relative to threads under the same plan: sums in another order
constexpr double kOfOneDevice = 1e-10;
constexpr double kRounded = 1e-6;  // compression changes the weights by more than this
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
                            .store_file = task.rendezvous_file(),
                            .timeout_seconds = kTimeLimit,
                            .device = task.rank});
}

// -- the children

/// words: model, strategy. Trains on the ragged batches in double; writes the losses, the number of recomputed segments
/// and its part of every bucket.
int train_role(const ChildTask& task) {
  at::set_num_threads(1);
  const Model model = test_support::small_model(task.words.at(0));
  const Program program = program_of(model, task.words.at(1), task.size);
  const auto batch_of = random_batches(model, ragged_batches());
  Worker worker(task.rank, model, &program, nullptr, Precision::fp64, world_of(task), worker_options());
  std::ofstream file(task.folder + "/result_" + std::to_string(task.rank), std::ios::binary);
  const auto write = [&](const void* data, size_t bytes) {
    file.write(static_cast<const char*>(data), std::streamsize(bytes));
  };
  int64_t recomputed = 0;
  for (size_t step = 0; step < ragged_batches().size(); ++step) {
    const StepOutcome outcome = worker.train({.step = int64_t(step),
                                              .batch = batch_of(int64_t(step)),
                                              .learning_rate = kLearningRate,
                                              .trace = true,
                                              .starts_stream = step == 0});
    write(&outcome.loss_sum, sizeof outcome.loss_sum);
    recomputed += std::count_if(outcome.events.begin(), outcome.events.end(),
                                [](const Event& event) { return event.kind == EventKind::recompute; });
  }
  write(&recomputed, sizeof recomputed);
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

/// words: strategy. Prints the bytes that remain on its device after a step.
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

// -- the parent

/// The results of all children of a run.
struct Trained {
  std::vector<double> losses;  ///< mean over each step's batch
  Snapshot last;               ///< parameters after the last step
  int64_t recomputed = 0;      ///< segments, over all steps and processes
};

/// Collects the flat buckets of all processes; expects the same bits from all holders of an element.
class Buckets {
 public:
  explicit Buckets(const Program& program) : program_(program) {
    for (const Bucket& bucket : program.buckets) {
      values_.push_back(at::zeros({bucket.elements}, at::kDouble));
      known_.push_back(at::zeros({bucket.elements}, at::kBool));
    }
  }

  void add(BucketId bucket, int64_t begin, const at::Tensor& piece) {
    at::Tensor values = values_.at(size_t(bucket)).narrow(0, begin, piece.numel());
    at::Tensor known = known_[size_t(bucket)].narrow(0, begin, piece.numel());
    EXPECT_TRUE(at::equal(values.masked_select(known), piece.masked_select(known)))
        << "holders differ in bucket " << bucket;
    values.copy_(piece);
    known.fill_(true);
  }

  Snapshot snapshot() const {
    Snapshot snapshot;
    for (const ProgramParameter& parameter : program_.parameters) {
      snapshot.names.push_back(parameter.spec.name);
      snapshot.parameters.push_back(at::zeros(parameter.spec.shape, at::kDouble));
    }
    snapshot.gradients.resize(snapshot.names.size());
    for (size_t b = 0; b < program_.buckets.size(); ++b) {
      EXPECT_TRUE(known_[b].all().item<bool>()) << "no rank holds a part of bucket " << b;
      for (const ParameterShard& shard : program_.buckets[b].shards) {
        at::Tensor place = snapshot.parameters[size_t(shard.parameter)];
        for (size_t dim = 0; dim < shard.box.size(); ++dim)
          place = place.narrow(int64_t(dim), shard.box[dim].begin, shard.box[dim].size());
        place.copy_(view_of_shard(values_[b], shard));
      }
    }
    snapshot.averages.resize(snapshot.names.size());
    return snapshot;
  }

 private:
  const Program& program_;
  std::vector<at::Tensor> values_, known_;  // by bucket
};

void read_result(const std::string& path, Trained& trained, Buckets& buckets) {
  std::ifstream file(path, std::ios::binary);
  const auto read = [&](void* data, size_t bytes) {
    return bool(file.read(static_cast<char*>(data), std::streamsize(bytes)));
  };
  for (double& loss : trained.losses) {
    double part = 0;
    ASSERT_TRUE(read(&part, sizeof part)) << path;
    loss += part;
  }
  int64_t recomputed = 0, head[3];
  ASSERT_TRUE(read(&recomputed, sizeof recomputed)) << path;
  trained.recomputed += recomputed;
  while (read(head, sizeof head)) {
    at::Tensor piece = at::empty({head[2] - head[1]}, at::kDouble);
    ASSERT_TRUE(read(piece.data_ptr(), piece.nbytes()) || piece.numel() == 0) << path;
    buckets.add(BucketId(head[0]), head[1], piece);
  }
}

std::vector<Snapshot> in_threads(const Model& model, const Plan& plan) {
  LockstepOptions options;
  options.steps = int64_t(ragged_batches().size());
  options.precision = Precision::fp64;
  options.worker = worker_options();
  options.learning_rate = kLearningRate;
  options.one_pass = true;
  return run_lockstep(model, plan, random_batches(model, ragged_batches()), options);
}

void expect_run(const Trained& trained, const std::vector<Snapshot>& expected, double tolerance) {
  for (size_t step = 0; step < expected.size(); ++step)
    EXPECT_NEAR(trained.losses[step], expected[step].loss, tolerance * std::abs(expected[step].loss))
        << "step " << step;
  expect_same({trained.last}, {expected.back()}, tolerance);
}

double largest_difference(const Snapshot& a, const Snapshot& b) {
  double largest = 0;
  for (size_t p = 0; p < b.names.size(); ++p)
    largest = std::max(largest, relative_difference(a.parameters.at(p), b.parameters[p]));
  return largest;
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

  /// Trains in processes, compares with threads under the same plan, and returns the results.
  Trained train(const Model& model, const Plan& plan) {
    const auto& [model_name, strategy, processes] = GetParam();
    Children children("train", processes, {model_name, strategy});
    const Program program = program_of(model, strategy, processes);
    const std::vector<int64_t> batches = ragged_batches();
    const std::vector<Snapshot> threads = in_threads(model, plan);

    Trained trained;
    for (const ChildEnd& end : children.wait(kTimeLimit)) {
      EXPECT_EQ(end.exit_code, 0) << end.output << " signal " << end.signal;
      if (end.exit_code != 0) return trained;
    }
    trained.losses.resize(batches.size());
    Buckets buckets(program);
    for (int rank = 0; rank < processes; ++rank)
      read_result(children.folder() + "/result_" + std::to_string(rank), trained, buckets);
    for (size_t step = 0; step < batches.size(); ++step) trained.losses[step] /= double(batches[step]);
    trained.last = buckets.snapshot();
    trained.last.loss = trained.losses.back();
    SCOPED_TRACE("beside threads");
    expect_run(trained, threads, kOfThreads);
    return trained;
  }

  Plan plan_for(const Model& model) const {
    return named_plan(GetParam().strategy, model, Cluster::uniform(GetParam().processes), kBatch, {});
  }
};

class ExactProcesses : public TrainProcesses {};
INSTANTIATE_TEST_SUITE_P(DataAndPipeline, ExactProcesses,
                         ::testing::Values(Case{"mlp", "data", 2}, Case{"convnet", "data", 4},
                                           Case{"mlp", "data=2,pipeline=2,schedule=1f1b,micro_batches=3", 4}));
INSTANTIATE_TEST_SUITE_P(Zero, ExactProcesses,
                         ::testing::Values(Case{"mlp", "zero1", 4}, Case{"transformer-lm", "zero1", 2},
                                           Case{"mlp", "zero2", 2}, Case{"convnet", "zero2", 4},
                                           Case{"mlp", "zero3", 4}, Case{"resnet-bn", "zero3", 2},
                                           Case{"mlp", "zero2,micro_batches=3", 2},
                                           Case{"transformer-lm", "zero3,micro_batches=3", 2},
                                           Case{"mlp", "data=2,pipeline=2,micro_batches=2,sharding=zero1", 4}));
INSTANTIATE_TEST_SUITE_P(Tensor, ExactProcesses,
                         ::testing::Values(Case{"mlp", "tensor=2", 2}, Case{"convnet", "tensor=2", 2},
                                           Case{"transformer-lm", "tensor=2", 2}, Case{"mlp", "data=2,tensor=2", 4},
                                           Case{"resnet-bn", "data=2,tensor=2", 4},
                                           Case{"transformer-lm", "data=2,tensor=2", 4},
                                           Case{"transformer-lm", "data=2,tensor=2,sharding=zero3", 4},
                                           Case{"mlp", "tensor=2,pipeline=2,micro_batches=3", 4}));
// Models with dropout: recomputing must give the same masks.
INSTANTIATE_TEST_SUITE_P(
    Recompute, ExactProcesses,
    ::testing::Values(Case{"dropout-mlp", "data=2,recompute=all", 2},
                      Case{"transformer-lm", "data=2,micro_batches=3,recompute=all", 2},
                      Case{"transformer-lm", "data=2,micro_batches=3,recompute=except_last", 2},
                      Case{"dropout-mlp", "pipeline=2,micro_batches=3,schedule=1f1b,recompute=except_last", 2},
                      Case{"transformer-lm", "tensor=2,micro_batches=2,recompute=all", 2},
                      Case{"transformer-lm", "data=2,tensor=2,micro_batches=2,recompute=except_last", 4},
                      Case{"transformer-lm", "zero3,recompute=all", 2}));

TEST_P(ExactProcesses, TrainAsOneDevice) {
  const Model model = test_support::small_model(GetParam().model);
  const Plan plan = plan_for(model);
  const Trained trained = train(model, plan);
  if (HasFailure()) return;
  const bool recomputes = GetParam().strategy.find("recompute=") != std::string::npos;
  EXPECT_EQ(trained.recomputed > 0, recomputes);
  expect_run(trained, in_threads(model, test_support::single_plan(model)), kOfOneDevice);
}

class CompressingProcesses : public TrainProcesses {};
INSTANTIATE_TEST_SUITE_P(Plans, CompressingProcesses,
                         ::testing::Values(Case{"mlp", "data,compression=bf16", 2},
                                           Case{"convnet", "data,compression=bf16", 3},
                                           Case{"mlp", "zero2,compression=bf16", 2},
                                           Case{"mlp", "data,compression=powersgd:2", 2},
                                           Case{"convnet", "data,compression=powersgd:2", 3},
                                           Case{"transformer-lm", "data=2,tensor=2,compression=powersgd:1", 4}));

/// Compression rounds, so the reference is threads under the same plan, not one device.
TEST_P(CompressingProcesses, TrainAsThreads) {
  const Model model = test_support::small_model(GetParam().model);
  const Plan plan = plan_for(model);
  const Trained trained = train(model, plan);
  if (HasFailure()) return;
  const Snapshot exact = in_threads(model, test_support::single_plan(model)).back();
  EXPECT_GT(largest_difference(trained.last, exact), kRounded) << "gradients are compressed";
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

  // 4 bytes per element; momentum keeps one state tensor.
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
  return trireme::test_support::process_main(argc, argv,
                                             {{"train", trireme::train_role}, {"memory", trireme::memory_role}});
}
