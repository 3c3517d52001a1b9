#include "train/process_rank.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <thread>

#include "base/cgroup.h"
#include "base/cores.h"
#include "base/machine.h"
#include "base/seconds.h"
#include "comm/rendezvous/text_messages.h"
#include "profile/measure_links.h"
#include "profile/probe_link.h"
#include "train/outcome_text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using nlohmann::json;

enum Tag : int64_t { kVerdict, kPost, kMemory, kClock };

constexpr const char* kGo = "go";
constexpr const char* kEnd = "end";
constexpr double kMostCores = 1e6;  // if no control group limits them
constexpr int kClockRounds = 8;     // the fastest round counts

constexpr int kLinkRounds = 4;
constexpr std::chrono::milliseconds kBetweenRounds{50};

/// Returns the faster values of two measurements of a link, because other programs can only make it slower.
LinkEstimate least_disturbed(const LinkEstimate& a, const LinkEstimate& b) {
  const auto least = [](double x, double y) { return x > 0 && y > 0 ? std::min(x, y) : std::max(x, y); };
  return {std::min(a.latency, b.latency),
          std::max(a.bandwidth, b.bandwidth),
          {least(a.work.of_message, b.work.of_message), least(a.work.of_byte, b.work.of_byte)}};
}

std::string text_of(double number) { return {reinterpret_cast<const char*>(&number), sizeof number}; }

double number_from(const std::string& text) {
  double number = 0;
  check_internal(text.size() == sizeof number, "ranks send each other whole numbers of seconds");
  std::memcpy(&number, text.data(), sizeof number);
  return number;
}

std::unique_ptr<Communicator> over_all(Communicator& world) {
  std::vector<int> all(static_cast<size_t>(world.size()));
  std::iota(all.begin(), all.end(), 0);
  return world.group(all);
}

void shift(StepOutcome& outcome, double by) {
  outcome.begin += by;
  outcome.end += by;
  outcome.not_finite_at += by;
  for (Event& event : outcome.events) {
    event.begin += by;
    event.end += by;
  }
}

}  // namespace

std::string machine_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  if (std::getline(file, id)) return id;
  return host_name();
}

ProcessRank::ProcessRank(std::unique_ptr<Communicator> world, std::string backend)
    : world_(std::move(world)), states_(over_all(*world_)), backend_(std::move(backend)) {
  const json own = {machine_id(), usable_cores(), cgroup_limits().cores.value_or(kMostCores)};
  json all = json::array();
  for (const std::string& hello : gather_texts(*world_, own.dump())) all.push_back(json::parse(hello));
  all = json::parse(broadcast_text(*world_, all.dump()));
  std::vector<std::string> names;  // of machines
  std::vector<std::set<int>> cores;
  std::vector<double> quotas;
  for (const json& hello : all) {
    const size_t machine = size_t(std::find(names.begin(), names.end(), hello.at(0)) - names.begin());
    if (machine == names.size()) {
      names.push_back(hello.at(0).get<std::string>());
      cores.emplace_back();
      quotas.push_back(0);
    }
    machines_.of_rank.push_back(int(machine));
    for (const json& core : hello.at(1)) cores[machine].insert(core.get<int>());
    quotas[machine] = hello.at(2).get<double>();
  }
  for (size_t m = 0; m < cores.size(); ++m)
    machines_.cores.push_back(std::max(1, int(std::min(double(cores[m].size()), quotas[m]))));
  const auto& of_rank = machines_.of_rank;
  rank_on_machine_ = int(std::count(of_rank.begin(), of_rank.begin() + rank(), of_rank[size_t(rank())]));
  compare_clocks();
}

int ProcessRank::cores() const { return std::accumulate(machines_.cores.begin(), machines_.cores.end(), 0); }

ProcessMachines ProcessRank::measure_machines() {
  std::vector<std::vector<int>> ranks(machines_.cores.size());
  for (int rank = 0; rank < size(); ++rank) ranks[size_t(machines_.of_rank[size_t(rank)])].push_back(rank);
  using Pairs = std::vector<std::pair<int, int>>;
  // Measures the links between neighbours in each row, in two rounds, because a rank can be in only one pair at a time.
  const auto link_of = [&](const std::vector<std::vector<int>>& rows) {
    LinkEstimate worst;
    for (const size_t first : {size_t{0}, size_t{1}}) {
      Pairs pairs;
      for (const std::vector<int>& row : rows)
        for (size_t k = first; k + 1 < row.size(); k += 2) pairs.emplace_back(row[k], row[k + 1]);
      if (pairs.empty()) continue;
      LinkEstimate measured = probe_links(*world_, pairs);
      for (int round = 1; round < kLinkRounds; ++round) {
        // There is a pause between rounds, because other programs come and go. All ranks make the same rounds.
        std::this_thread::sleep_for(kBetweenRounds);
        measured = least_disturbed(measured, probe_links(*world_, pairs));
      }
      worst.latency = std::max(worst.latency, measured.latency);
      worst.work.of_message = std::max(worst.work.of_message, measured.work.of_message);
      worst.work.of_byte = std::max(worst.work.of_byte, measured.work.of_byte);
      worst.bandwidth = worst.bandwidth > 0 ? std::min(worst.bandwidth, measured.bandwidth) : measured.bandwidth;
    }
    return worst;
  };
  std::vector<int> leaders;  // a rank of each machine
  leaders.reserve(ranks.size());
  for (const std::vector<int>& here : ranks) leaders.push_back(here.front());
  ProcessMachines measured = machines_;
  const LinkEstimate within = link_of(ranks), between = link_of({leaders});
  measured.within = {.bandwidth = within.bandwidth, .latency = within.latency};
  measured.work_within = within.work;
  measured.network = {.bandwidth = between.bandwidth, .latency = between.latency};
  measured.work_between = between.work;
  measured.redistributions = measure_redistributions(*world_);
  measured.buffers = message_buffers(*world_);
  return measured;
}

void ProcessRank::count_gpus(const std::vector<std::string>& ids) {
  std::set<json> all;
  for (const std::string& text : gather_texts(*world_, json{machine_id(), ids}.dump())) {
    const json found = json::parse(text);
    for (const json& id : found.at(1)) all.insert(json{found.at(0), id});
  }
  gpus_ = std::stoi(broadcast_text(*world_, std::to_string(all.size())));
}

/// Rank 0 answers with its time; the answer is assumed to have taken half of the round trip. Only between machines,
/// because a machine has one clock.
void ProcessRank::compare_clocks() {
  for (int other = 1; other < size(); ++other) {
    if (machines_.of_rank[size_t(other)] == machines_.of_rank[0] || (rank() != 0 && rank() != other)) continue;
    double fastest = std::numeric_limits<double>::infinity();
    for (int round = 0; round < kClockRounds; ++round) {
      if (rank() == 0) {
        receive_text(*world_, other, kClock);
        send_text(*world_, text_of(steady_seconds()), other, kClock);
        continue;
      }
      const double asked = steady_seconds();
      send_text(*world_, "", 0, kClock);
      const double there = number_from(receive_text(*world_, 0, kClock)), answered = steady_seconds();
      if (answered - asked >= fastest) continue;
      fastest = answered - asked;
      clock_ahead_ = (asked + answered) / 2 - there;
    }
  }
}

void ProcessRank::connect_gpus(const BackendKind& backend, c10::Device gpu) {
  tensors_ = backend.between_gpus(over_all(*world_), gpu);
  states_ = over_all(*tensors_);
  backend_ = backend.name;
}

std::unique_ptr<Communicator> ProcessRank::worker_communicator() { return over_all(tensors_ ? *tensors_ : *world_); }

void ProcessRank::begin_run() {
  check_internal(awaited_.empty(), "the run before has all its records");
  decided_ = -1;
  ended_ = false;
}

bool ProcessRank::enters(StepGate& gate, int64_t step, int64_t steps, bool ahead) {
  if (rank() != 0) return receive_text(*world_, 0, kVerdict) == kGo;
  if (decided_ < 0) decided_ = step - 1;
  // Decides this step, if that was not done ahead, and the next one.
  const int64_t last = std::min(ahead ? step + 1 : step, steps - 1);
  while (!ended_ && decided_ < last) {
    ended_ = !gate.enter(++decided_);
    for (int other = 1; other < size(); ++other) send_text(*world_, ended_ ? kEnd : kGo, other, kVerdict);
  }
  return !ended_ || step < decided_;
}

void ProcessRank::post(StepRecords& records, int64_t step, bool evaluation, StepOutcome outcome, double load_seconds) {
  shift(outcome, -clock_ahead_);
  if (rank() != 0)
    return send_text(
        *world_, to_text(PostedOutcome{step, evaluation, std::move(outcome), load_seconds, end_requested_}), 0, kPost);
  awaited_.push_back({.step = step, .evaluation = evaluation, .begin = outcome.begin, .end = outcome.end});
  records.post(0, step, evaluation, std::move(outcome), load_seconds);
  take_posts(records, evaluation ? 0 : 1);
}

/// Receives posts until at most `left` are outstanding.
void ProcessRank::take_posts(StepRecords& records, size_t left) {
  for (; awaited_.size() > left; awaited_.pop_front())
    for (Awaited& awaited = awaited_.front(); awaited.next < size(); ++awaited.next) {
      const int other = awaited.next;
      PostedOutcome posted = outcome_from(receive_text(*world_, other, kPost));
      check_internal(posted.step == awaited.step && posted.evaluation == awaited.evaluation,
                     "all ranks go through the same steps");
      if (posted.end_requested) other_end_requested_ = other;
      records.post(other, posted.step, posted.evaluation, std::move(posted.outcome), posted.load_seconds);
    }
}

bool ProcessRank::post_for_others(StepRecords& records, const std::map<int64_t, std::vector<double>>& losses) {
  for (; !awaited_.empty(); awaited_.pop_front()) {
    Awaited& awaited = awaited_.front();
    const auto known = losses.find(awaited.step);
    if (awaited.evaluation) return awaited_.size() == 1;
    if (known == losses.end()) return false;
    for (; awaited.next < size(); ++awaited.next) {
      StepOutcome outcome;
      outcome.loss_sum = known->second.at(size_t(awaited.next));
      outcome.begin = awaited.begin;
      outcome.end = awaited.end;
      records.post(awaited.next, awaited.step, false, std::move(outcome), 0);
    }
  }
  return true;
}

void ProcessRank::finish(StepRecords& records, std::vector<MemoryUse>& memory) {
  const MemoryUse own = memory_use(rank());
  if (rank() != 0) return send_text(*world_, to_text(own), 0, kMemory);
  take_posts(records, 0);
  memory.resize(size_t(size()));
  memory[0] = own;
  for (int other = 1; other < size(); ++other)
    memory[size_t(other)] = memory_from(receive_text(*world_, other, kMemory));
}

}  // namespace trireme
