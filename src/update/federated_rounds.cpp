#include "update/federated_rounds.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace trireme {

FederatedRounds::FederatedRounds(const RoundOptions& options) : options_(options), work_(size_t(options.clients), Work::idle) { select(0); }

std::vector<int> FederatedRounds::selection(int64_t round) const {
  const auto wanted = std::max<int64_t>(1, std::llround(options_.fraction * options_.clients));
  std::vector<int> chosen;
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

void FederatedRounds::take_back(int client, double now) {
  if (work_[size_t(client)] != Work::lost) return;
  const bool alone = !is_anybody_here();
  work_[size_t(client)] = Work::idle;
  --lost_;
  if (alone && !is_over()) select(now);
}

void FederatedRounds::next(double now) {
  ++round_;
  select(now);
}

}  // namespace trireme
