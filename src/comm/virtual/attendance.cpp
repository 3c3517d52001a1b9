#include "comm/virtual/attendance.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "comm/formulas.h"

namespace trireme {

int64_t bytes_of_exchange(Collective collective, const at::Tensor& tensor, int members, int index) {
  if (collective == Collective::all_gather) return (members - 1) * int64_t(tensor.nbytes());
  return all_reduce_bytes(tensor.numel(), int64_t(tensor.element_size()), members, index);
}

std::shared_ptr<Gathered> Attendance::come(const What& what, std::vector<int> members, int runner,
                                           std::vector<at::Tensor> tensors) {
  const Key key{what.queue, members, calls_[{what.queue, members, runner}]++};
  std::shared_ptr<Gathered>& place = open_[key];
  if (!place) {
    place = std::make_shared<Gathered>();
    place->metered = what.metered;
    place->collective = what.queue == What::Queue::control ? Collective::barrier : what.collective;
    place->missing =
        int(std::count_if(members.begin(), members.end(), [&](int member) { return !lost_.contains(member); }));
    place->members = std::move(members);
  }
  const std::shared_ptr<Gathered> exchange = place;
  exchange->ready = std::max(exchange->ready, time_.now());
  exchange->brought[runner] = std::move(tensors);
  if (--exchange->missing == 0) {
    open_.erase(key);
    complete(*exchange);
  }
  return exchange;
}

void Attendance::complete(Gathered& exchange) {
  std::vector<int64_t> bytes;
  int tensors = 0;
  for (const auto& [runner, brought] : exchange.brought) exchange.present.push_back(runner);
  const int n = int(exchange.present.size());
  for (const auto& [runner, brought] : exchange.brought) {
    const int index = int(bytes.size());
    bytes.push_back(0);
    for (const at::Tensor& tensor : brought) bytes.back() += bytes_of_exchange(exchange.collective, tensor, n, index);
    if (index == 0) tensors = int(brought.size());
  }
  const bool moves = exchange.metered && exchange.collective != Collective::barrier;
  const int rounds = rounds_of(exchange.collective, n) * tensors;
  exchange.finish = moves ? links_.collective(exchange.present, bytes, rounds, exchange.ready) : exchange.ready;
  exchange.brought.clear();
  time_.advance(exchange.complete, 1);
}

void Attendance::wait(Gathered& exchange) {
  using Untimed = VirtualTime::Untimed;
  const Untimed quiet(exchange.metered ? Untimed::What::nothing : Untimed::What::everything);
  if (exchange.complete.load() == 0)
    time_.wait_for(
        exchange.complete, 1,
        fmt::format("{} of {} {} to arrive at an exchange", exchange.missing, exchange.members.size(), kind_));
}

void Attendance::lose(int runner) {
  lost_.insert(runner);
  for (auto it = open_.begin(); it != open_.end();) {
    const std::shared_ptr<Gathered> exchange = it->second;
    const bool is_member = std::binary_search(exchange->members.begin(), exchange->members.end(), runner);
    const bool completes = is_member && !exchange->brought.contains(runner) && --exchange->missing == 0;
    it = completes ? open_.erase(it) : std::next(it);
    if (!completes) continue;
    exchange->ready = std::max(exchange->ready, time_.now());
    complete(*exchange);
  }
}

}  // namespace trireme
