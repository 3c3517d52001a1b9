#include "sample.h"

#include <stdlib.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <iterator>

namespace trireme::test_support {
namespace {

constexpr int kSteps = 400;
constexpr int64_t kMi = 1 << 20;

Timeline sample_timeline(int workers, double step) {
  Timeline timeline{.step = 12, .workers = workers, .events = {}};
  for (int rank = 0; rank < workers; ++rank) {
    double at = 0;
    auto add = [&](EventKind kind, const char* name, int micro, double share, int64_t bytes) {
      timeline.events.push_back({rank, kind, name, micro, at, at + share * step, bytes});
      at += share * step;
    };
    add(EventKind::load, "load batch", -1, 0.02, 0);
    for (int micro = 0; micro < 2; ++micro) add(EventKind::forward, "forward conv1..fc2", micro, 0.13, 0);
    for (int micro = 0; micro < 2; ++micro) add(EventKind::backward, "backward conv1..fc2", micro, 0.26, 0);
    if (workers > 1) {
      timeline.events.push_back({rank, EventKind::reduce, "reduce bucket 0", -1, 0.7 * step, 0.88 * step, 3 * kMi});
      add(EventKind::wait, "wait for gradients", -1, 0.08, 0);
    }
    add(EventKind::update, "update", -1, 0.07, 0);
  }
  return timeline;
}

RunResult ok_row(const char* strategy, const char* plan, int devices, double step) {
  RunResult row;
  row.strategy = strategy;
  row.plan = plan;
  row.devices = devices;
  row.step_seconds = StepSeconds{step, 0.95 * step, 1.2 * step};
  row.epoch_seconds = 469 * step;
  row.samples_per_second = 128 / step;
  row.scaling_efficiency = 0.0212 / step / devices;
  row.busy_share.assign(devices, devices == 1 ? 0.985 : 0.87);
  row.loading_share = 0.004;
  row.exposed_communication = devices == 1 ? 0.0 : 0.081;
  row.hidden_communication = devices == 1 ? 0.0 : 0.104;
  row.bytes_per_step = devices == 1 ? 0 : 4811304;
  for (int d = 0; d < devices; ++d)
    row.memory.push_back({.current = {4 * kMi, 4 * kMi, 4 * kMi, 0, kMi / 3},
                          .at_peak = {4 * kMi, 4 * kMi, 4 * kMi, (40 + d) * kMi / devices, kMi / 2},
                          .peak = 12 * kMi + (40 + d) * kMi / devices + kMi / 2});
  for (int s = 1; s <= kSteps; ++s)
    row.curve.push_back({s, 128 * s, s * step, 2.3 * std::exp(-s / 60.0) + 0.05 + 0.02 * std::sin(s * 1.7)});
  for (int s = 100; s <= kSteps; s += 100)
    row.evaluations.push_back({s,
                               128 * s,
                               s / 469.0,
                               s * step,
                               0.3 * std::exp(-s / 150.0) + 0.04,
                               {{"accuracy", 0.99 - 0.1 * std::exp(-s / 90.0)}}});
  row.test = row.test_at_equal_samples = row.evaluations.back();
  row.test_at_equal_time = row.evaluations[2];
  row.target = 0.98;
  row.to_target = ToTarget{300, 300 / 469.0, 300 * step};
  row.timeline = sample_timeline(devices, step);
  return row;
}

/// Two stages and two micro-batches; forwards come first.
nlohmann::json sample_schedule() {
  const auto box = [](double begin, double end, const char* kind, int stage, int micro_batch) {
    return nlohmann::json{
        {"begin", begin}, {"end", end}, {"kind", kind}, {"stage", stage}, {"micro_batch", micro_batch}, {"batch", 0}};
  };
  nlohmann::json first = {box(0, 1, "forward", 0, 0), box(1, 2, "forward", 0, 1), box(5, 7, "backward", 0, 1),
                          box(7, 9, "backward", 0, 0)};
  nlohmann::json second = {box(1, 2, "forward", 1, 0), box(2, 3, "forward", 1, 1), box(3, 5, "backward", 1, 1),
                           box(5, 7, "backward", 1, 0)};
  const auto row = [](const char* label, int number, nlohmann::json boxes) {
    return nlohmann::json{{"label", label},
                          {"workers", {number}},
                          {"stages", {number}},
                          {"bubble", 1.0 / 3},
                          {"boxes", std::move(boxes)}};
  };
  return {{"unit", "one forward of a worker"},
          {"makespan", 9.0},
          {"shown_until", 9.0},
          {"batches", 1},
          {"micro_batches", 2},
          {"flushes", true},
          {"bubble", 1.0 / 3},
          {"rows", {row("worker 0, stage 0", 0, std::move(first)), row("worker 1, stage 1", 1, std::move(second))}}};
}

}  // namespace

ExperimentResult sample_result() {
  ExperimentResult result;
  result.experiment = "mnist";
  result.model = "mnist-convnet";
  result.data_source = "MNIST (60000 + 10000 images)";
  result.precision = "float32";
  result.batch = 128;
  result.seed = 18446744073709551615u;  // a value that a double cannot hold
  result.machine = "2 cores, AVX-512, AMX, 23.4 GiB; libtorch 1.13.1";
  result.started = "2026-01-31T23:59:58Z";
  result.rows = {ok_row("single", "single", 1, 0.0212), ok_row("data", "data 2", 2, 0.0113),
                 ok_row("pipeline", "pipeline 2, gpipe, 2 micro-batches", 2, 0.0154),
                 ok_row("hybrid", "data 2 x tensor 2", 4, 0.0251)};
  result.rows[0].blocks = {
      {"layer1.0", 7, 0, "one device"}, {"layer1.1", 5, 0, "one device"}, {"top", 2, 0, "one device"}};
  result.rows[1].blocks = {
      {"layer1.0", 7, 0, "data 2"}, {"layer1.1", 5, 0, "data 2"}, {"top", 2, 0, "data 2, tensor 2"}};
  // The border between the stages is inside a block.
  result.rows[2].blocks = {{"layer1.0", 7, 0, "one device"},
                           {"layer1.1", 1, 0, "one device"},
                           {"layer1.1", 4, 1, "one device"},
                           {"top", 2, 1, "one device"}};
  result.rows[3].blocks = {{"layer1.0", 7, 0, "data 2 x tensor 2"},
                           {"layer1.1", 5, 0, "data 2 x tensor 2, data 2 x 2 copies"},
                           {"top", 2, 0, "tensor 4"}};
  result.rows[2].schedule = std::make_shared<const nlohmann::json>(sample_schedule());
  result.rows[3].warnings = {"4 workers share 2 cores: their times cannot be compared, their curves can"};
  RunResult late;
  late.strategy = "tensor";
  late.plan = "tensor 2";
  late.devices = 2;
  late.status = RunStatus::timed_out;
  late.reason = "no step in 60 s; raise --time-limit";
  result.rows.push_back(late);
  return result;
}

ExperimentResult segmentation_sample() {
  ExperimentResult result = sample_result();
  result.experiment = "camvid";
  result.data_source = "CamVid";
  for (RunResult& row : result.rows) {
    row.target = 0.3;
    row.loading_share = 0.123;
    const auto change = [](EvaluationPoint& e) {
      const double iou = e.main()->value - 0.5;
      e.metrics = {{"mean_iou", iou},
                   {"pixel_accuracy", iou + 0.3},
                   {"iou.0", iou + 0.1},
                   {"iou.1", std::nan("")},
                   {"iou.2", iou - 0.1}};
    };
    for (EvaluationPoint& e : row.evaluations) change(e);
    for (auto* e : {&row.test, &row.test_at_equal_samples, &row.test_at_equal_time})
      if (*e) change(**e);
  }
  return result;
}

ExperimentResult policies_sample() {
  ExperimentResult result = sample_result();
  result.experiment = "policies";
  result.rows.clear();
  for (const char* policy : {"local-sgd", "async-average"})
    for (int workers : {1, 8, 64}) {
      RunResult row = ok_row(policy, "replicas", workers, 0.0212 / workers * (policy[0] == 'l' ? 1.2 : 1));
      row.name = policy;
      row.memory.assign(size_t(workers), row.memory.front());
      row.timeline.reset();
      for (EvaluationPoint& point : row.evaluations) point.metrics[0].value -= 0.0005 * workers;
      row.test = row.evaluations.back();
      row.replicas =
          ReplicaReport{.replicas = workers, .clock = "modelled", .idle_share = 0.05, .bytes = workers * 3 * kMi};
      if (policy[0] == 'a') row.replicas->staleness.assign(size_t(workers), 10);
      result.rows.push_back(std::move(row));
    }
  return result;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "trireme-report-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace trireme::test_support
