#include "update/federated_rounds.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/random.h"

namespace trireme {
namespace {

constexpr const char* kStopped = "rounds stopped";  // name in a state

}  // namespace

FederatedRounds::FederatedRounds(const RoundOptions& options)
    : options_(options), work_(size_t(options.clients), Work::idle) {
  select(0);
}

std::vector<int> FederatedRounds::selection(int64_t round) const {
  std::vector<int> chosen;
  if (options_.secret) {
    const Philox draw(random_key(*options_.secret, "clients"));
    for (int client = 0; client < options_.clients; ++client)
      if (!is_out(client) && draw.uniform(uint64_t(client), uint64_t(round)) < options_.fraction)
        chosen.push_back(client);
    return chosen;
  }
  const auto wanted = std::max<int64_t>(1, std::llround(options_.fraction * options_.clients));
  const uint64_t key = random_key(options_.seed, "clients of round " + std::to_string(round));
  for (const int64_t client : random_permutation(options_.clients, key))
    if (int64_t(chosen.size()) < wanted && !is_out(int(client))) chosen.push_back(int(client));
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

void FederatedRounds::select(double now) {
  for (int client = 0; client < options_.clients; ++client)
    if (!is_out(client)) work_[size_t(client)] = Work::idle;
  const std::vector<int> chosen = selection(round_);
  for (const int client : chosen) work_[size_t(client)] = Work::selected;
  missing_ = int(chosen.size());
  record_ = {.round = round_, .selected = missing_};
  if (options_.timeout > 0) deadline_ = now + options_.timeout;
}

bool FederatedRounds::answer(int client, int64_t round) {
  if (round != round_) {
    ++record_.late;
    return false;
  }
  if (work_[size_t(client)] != Work::begun) return false;
  work_[size_t(client)] = Work::idle;
  --missing_;
  return true;
}

void FederatedRounds::leave(int client) {
  Work& work = work_[size_t(client)];
  if (work == Work::gone) return;
  if (work == Work::lost) --lost_;
  else if (work != Work::idle) --missing_;
  work = Work::gone;
  ++gone_;
}

void FederatedRounds::lose(int client) {
  Work& work = work_[size_t(client)];
  if (is_out(client)) return;
  if (work != Work::idle) --missing_;
  work = Work::lost;
  ++lost_;
}

void FederatedRounds::come_back(int client, double now) {
  if (work_[size_t(client)] != Work::gone) return;
  work_[size_t(client)] = Work::lost;
  --gone_;
  ++lost_;
  readmit(client, now);
}

void FederatedRounds::readmit(int client, double now) {
  if (work_[size_t(client)] != Work::lost) return;
  const bool alone = !has_present_client();
  work_[size_t(client)] = Work::idle;
  --lost_;
  if (alone && !is_over()) select(now);
}

void FederatedRounds::next(double now) {
  ++round_;
  select(now);
}

void FederatedRounds::begin_anew(int client) {
  if (work_[size_t(client)] == Work::begun) work_[size_t(client)] = Work::selected;
}

void FederatedRounds::fields(StateFields& fields, double now) {
  std::vector<int64_t> work;
  for (const Work of : work_) work.push_back(int64_t(of));
  fields.value("rounds work by client", work);
  fields.value("rounds open", round_);
  fields.value(kStopped, stopped_);
  bool has_deadline = std::isfinite(deadline_);
  double deadline = has_deadline ? deadline_ : 0, then = now;
  fields.value("rounds have a deadline", has_deadline);
  fields.value("rounds deadline", deadline);
  fields.value("rounds taken at", then);
  std::vector<RoundRecord> open = {record_};
  record_fields(fields, "rounds open: ", open);
  if (!fields.reads()) return;
  if (open.size() != 1) fields.refuse("rounds open: round", "there must be one");
  record_ = open.front();
  deadline_ = has_deadline ? deadline + (now - then) : std::numeric_limits<double>::infinity();
  missing_ = gone_ = lost_ = 0;
  for (size_t client = 0; client < work_.size(); ++client) {
    if (work[client] < 0 || work[client] > int64_t(Work::lost))
      fields.refuse("rounds work by client", "it is not a valid value");
    work_[client] = Work(work[client]);
    missing_ += work_[client] == Work::selected || work_[client] == Work::begun ? 1 : 0;
    gone_ += work_[client] == Work::gone ? 1 : 0;
    lost_ += work_[client] == Work::lost ? 1 : 0;
  }
  if (gone_ > 0 && !has_present_client()) {
    std::ranges::fill(work_, Work::idle);
    gone_ = lost_ = 0;
    select(now);
  }
  for (int client = 0; client < options_.clients; ++client) readmit(client, now);
}

std::optional<SavedRounds> saved_rounds(const PolicyState& state) {
  const auto over = state.integers.find(std::string(kRecordsOver) + "round"), stopped = state.integers.find(kStopped);
  if (over == state.integers.end() || stopped == state.integers.end() || stopped->second.size() != 1)
    return std::nullopt;
  return SavedRounds{.over = int64_t(over->second.size()), .has_ended = stopped->second.front() != 0};
}

void record_fields(StateFields& fields, const std::string& prefix, std::vector<RoundRecord>& records) {
  std::vector<int64_t> refused_clients;
  if (!fields.reads())
    for (const RoundRecord& record : records)
      refused_clients.insert(refused_clients.end(), record.refused_clients.begin(), record.refused_clients.end());
  else records.clear();
  const auto column = [&]<class T>(const char* name, T RoundRecord::*member) {
    std::vector<std::conditional_t<std::is_same_v<T, double>, double, int64_t>> values;
    for (const RoundRecord& record : records) values.push_back(record.*member);
    fields.value(prefix + name, values);
    if (records.empty()) records.resize(values.size());
    for (size_t i = 0; i < records.size(); ++i) records[i].*member = T(values[i]);
  };
  column("round", &RoundRecord::round);
  column("selected", &RoundRecord::selected);
  column("answered", &RoundRecord::answered);
  column("refused", &RoundRecord::refused);
  column("clipped", &RoundRecord::clipped);
  column("late", &RoundRecord::late);
  column("samples", &RoundRecord::samples);
  column("seconds", &RoundRecord::seconds);
  fields.value(prefix + "refused clients", refused_clients);
  if (!fields.reads()) return;
  auto next = refused_clients.begin();
  for (RoundRecord& record : records) {
    if (record.refused < 0 || record.refused > refused_clients.end() - next)
      fields.refuse(prefix + "refused", "it differs from the number of named clients");
    record.refused_clients.assign(next, next + record.refused);
    next += record.refused;
  }
}

}  // namespace trireme
