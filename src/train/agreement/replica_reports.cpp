#include "train/agreement/replica_reports.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "base/whole.h"
#include "trireme/error.h"
#include "update/statistics.h"

namespace trireme {
namespace {

constexpr double kNotMeasured = -1;  // in the place of a square
constexpr size_t kStepNumbers = 6, kSnapshotNumbers = 3, kWorkerNumbers = 5 + kMemoryCategories;

[[noreturn]] void refuse(std::string what) { fail_run({"a replica's report", std::move(what), "is invalid", ""}); }

int64_t count_of(double number) {
  const std::optional<int64_t> count = to_whole(number);
  if (!count || *count < 0) refuse(fmt::format("a count of {}", number));
  return *count;
}

double seconds_of(double number) {
  if (!(number >= 0) || !std::isfinite(number)) refuse(fmt::format("{} seconds", number));
  return number;
}

void check_numbers(const Request& request, size_t stride) {
  if (request.numbers.empty() || request.numbers.size() % stride != 0)
    refuse(fmt::format("{} numbers", request.numbers.size()));
}

}  // namespace

Request report_of_beginning(double seconds) {
  return {.operation = int(ReplicaReportKind::began), .numbers = {seconds}};
}

Request report_of(const TrainedStep& step) {
  return {.operation = int(ReplicaReportKind::steps),
          .numbers = {double(step.facts.step), double(step.facts.samples), step.loss_sum, step.begin, step.end,
                      step.gradient_squares.value_or(kNotMeasured)}};
}

Request report_of(const ReplicaSnapshot& snapshot) {
  Request request{.operation = int(ReplicaReportKind::snapshot),
                  .tensors = snapshot.values.weights,
                  .numbers = {double(snapshot.samples), snapshot.seconds, double(snapshot.values.weights.size())}};
  for (at::Tensor& tensor : tensors_of(snapshot.values.statistics)) request.tensors.push_back(std::move(tensor));
  return request;
}

Request report_of(const ReportedWorker& worker) {
  const auto& [device, memory, work] = worker;
  Request request{.operation = int(ReplicaReportKind::worker),
                  .numbers = {double(device), double(memory.peak), work.compute_seconds, work.exposed_seconds,
                              double(work.bytes_sent)}};
  request.numbers.insert(request.numbers.end(), memory.at_peak.begin(), memory.at_peak.end());
  return request;
}

Request report_of_end() { return {.operation = int(ReplicaReportKind::end), .numbers = {1}}; }

Request report_of(const TrainingState& part) {
  nlohmann::json described{{"texts", part.agreement_texts}, {"names", nlohmann::json::array()}};
  Request request{.operation = int(ReplicaReportKind::state), .tensors = {at::Tensor()}};
  for (const auto& [name, tensor] : part.agreement) {
    described["names"].push_back(name);
    request.tensors.push_back(tensor.contiguous());
  }
  const std::string text = described.dump();
  request.tensors.front() = at::empty({int64_t(text.size())}, at::kByte);
  std::ranges::copy(text, request.tensors.front().data_ptr<uint8_t>());
  return request;
}

ReplicaReportKind kind_of(const Request& request) {
  if (request.operation < 0 || request.operation > int(ReplicaReportKind::end))
    refuse(fmt::format("kind {}", request.operation));
  return ReplicaReportKind(request.operation);
}

double beginning_from(const Request& request) {
  check_numbers(request, 1);
  return seconds_of(request.numbers.front());
}

std::vector<TrainedStep> steps_from(const Request& request) {
  check_numbers(request, kStepNumbers);
  std::vector<TrainedStep> steps;
  for (auto n = request.numbers.begin(); n != request.numbers.end(); n += kStepNumbers)
    steps.push_back({.facts = {.step = count_of(n[0]), .samples = count_of(n[1])},
                     .loss_sum = n[2],
                     .begin = seconds_of(n[3]),
                     .end = seconds_of(n[4]),
                     .gradient_squares = n[5] == kNotMeasured ? std::nullopt : std::optional(n[5])});
  return steps;
}

TrainingState state_from(Request request) {
  if (request.tensors.empty() || request.tensors.front().scalar_type() != at::kByte)
    refuse("a state without its description");
  const at::Tensor text = request.tensors.front().contiguous();
  const uint8_t* const first = text.data_ptr<uint8_t>();
  const nlohmann::json described =
      nlohmann::json::parse(first, first + text.numel(), nullptr, /*allow_exceptions=*/false);
  if (!described.is_object() || !described.contains("texts") || !described.contains("names") ||
      described["names"].size() + 1 != request.tensors.size())
    refuse("a state that does not match its description");
  TrainingState part;
  try {
    described.at("texts").get_to(part.agreement_texts);
    for (size_t i = 0; i < described["names"].size(); ++i)
      part.agreement[described["names"][i].get<std::string>()] = std::move(request.tensors[i + 1]);
  } catch (const nlohmann::json::exception& error) {
    refuse(fmt::format("a state with an invalid description: {}", error.what()));
  }
  return part;
}

ReplicaSnapshot snapshot_from(Request request, const SnapshotShape& shape) {
  if (request.numbers.size() != kSnapshotNumbers)
    refuse(fmt::format("a snapshot with {} numbers", request.numbers.size()));
  ReplicaSnapshot snapshot{
      .samples = count_of(request.numbers[0]), .seconds = seconds_of(request.numbers[1]), .values = {}};
  const int64_t weights = count_of(request.numbers[2]);
  const std::span<const at::Tensor> tensors = request.tensors;
  if (weights > int64_t(tensors.size()) || int64_t(tensors.size()) - weights != 2 * int64_t(shape.statistics))
    refuse(fmt::format("a snapshot of {} tensors", tensors.size()));
  int64_t elements = 0;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.dim() != 1 || !tensor.is_floating_point()) refuse("a snapshot with a tensor that does not hold weights");
    elements += &tensor - tensors.data() < weights ? tensor.numel() : 0;
  }
  if (elements != shape.elements)
    refuse(fmt::format("a snapshot of {} weights instead of {}", elements, shape.elements));
  snapshot.values.weights.assign(tensors.begin(), tensors.begin() + weights);
  snapshot.values.statistics = statistics_of(tensors.subspan(size_t(weights)));
  return snapshot;
}

std::vector<ReportedWorker> workers_from(const Request& request, int devices) {
  check_numbers(request, kWorkerNumbers);
  std::vector<ReportedWorker> all;
  for (auto n = request.numbers.begin(); n != request.numbers.end(); n += kWorkerNumbers) {
    ReportedWorker& one = all.emplace_back();
    one.device = int(std::min(count_of(n[0]), int64_t(devices)));
    if (one.device >= devices) refuse(fmt::format("device {:.0f}", n[0]));
    one.memory.peak = count_of(n[1]);
    one.work = {.compute_seconds = seconds_of(n[2]), .exposed_seconds = seconds_of(n[3]), .bytes_sent = count_of(n[4])};
    for (size_t c = 0; c < kMemoryCategories; ++c) one.memory.at_peak[c] = count_of(n[5 + std::ptrdiff_t(c)]);
  }
  return all;
}

}  // namespace trireme
