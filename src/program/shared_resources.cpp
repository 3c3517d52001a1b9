#include "program/shared_resources.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trireme {
namespace {

constexpr double kNothingLeft = 1e-12;  // of one second's work: a rounding error

}  // namespace

SharedResources::SharedResources(std::vector<Pool> pools) {
  for (const Pool& pool : pools) pools_.push_back({pool, {}, 0, 0});
}

void SharedResources::begin(int id, double fixed, std::span<const Share> shares) {
  if (work_.size() <= size_t(id)) work_.resize(size_t(id) + 1);
  Work& work = work_[size_t(id)];
  work.shares.assign(shares.begin(), shares.end());
  std::erase_if(work.shares, [](const Share& share) { return share.amount <= 0; });
  work.open = 0;
  if (fixed > 0) events_.push({now_ + fixed, order_++, id, -1, 0});
  else open_shares(id);
}

void SharedResources::open_shares(int id) {
  Work& work = work_[size_t(id)];
  work.open = int(work.shares.size());
  if (work.open == 0) ended_.push(id);
  for (const Share& share : work.shares) {
    State& state = pools_[size_t(share.pool)];
    settle(state);
    state.parts.push_back({id, share.users, share.amount, share.crowding, 0});
    schedule(share.pool);
  }
}

void SharedResources::settle(State& state) {
  for (Part& part : state.parts) part.left -= part.rate * (now_ - state.at);
  state.at = now_;
}

/// After settle(): computes new rates and adds an event for the first part to end.
void SharedResources::schedule(int pool) {
  State& state = pools_[size_t(pool)];
  ++state.version;
  if (state.parts.empty()) return;
  double users = 0;
  for (const Part& part : state.parts) users += part.users;
  const double capacity = state.pool.capacity;
  double first = std::numeric_limits<double>::infinity();
  for (Part& part : state.parts) {
    if (state.pool.kind == Pool::Kind::link) part.rate = capacity * part.users / users;
    else {
      const double busy = capacity > 1 ? std::min(1.0, (users - 1) / (capacity - 1)) : 1;
      part.rate = std::min(1.0, capacity / users) / (1 + (part.crowding - 1) * busy);
    }
    first = std::min(first, std::max(part.left, 0.0) / part.rate);
  }
  events_.push({now_ + first, order_++, -1, pool, state.version});
}

int SharedResources::next() {
  while (ended_.empty()) {
    if (events_.empty()) return -1;
    const Event event = events_.top();
    events_.pop();
    if (event.id >= 0) {
      now_ = event.time;
      open_shares(event.id);
      continue;
    }
    State& state = pools_[size_t(event.pool)];
    if (event.version != state.version) continue;
    now_ = event.time;
    settle(state);
    std::vector<int> over;
    std::erase_if(state.parts, [&](const Part& part) {
      const bool ends = part.left <= kNothingLeft * part.rate +
                                         std::abs(part.rate) * now_ * std::numeric_limits<double>::epsilon() * 4;
      if (ends) over.push_back(part.id);
      return ends;
    });
    schedule(event.pool);
    for (int id : over)
      if (--work_[size_t(id)].open == 0) ended_.push(id);
  }
  const int id = ended_.front();
  ended_.pop();
  return id;
}

}  // namespace trireme
