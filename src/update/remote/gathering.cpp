#include "update/remote/gathering.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "comm/local/reduce_kernels.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr size_t kMostOpen = 256;  // maximum number of collectives of one client in progress

void check_alike(const Message& a, const Message& b, int client) {
  const auto refuse = [&](const char* why) {
    fail_run({fmt::format("client {}", client), "called a collective", why, ""});
  };
  if (a.verb != b.verb) refuse("called another kind of collective than the other clients");
  if (a.tensors.size() != b.tensors.size()) refuse("its number of tensors differs from the other clients'");
  for (size_t t = 0; t < a.tensors.size(); ++t)
    if (a.tensors[t].scalar_type() != b.tensors[t].scalar_type() ||
        (a.verb != Verb::gather && a.tensors[t].sizes() != b.tensors[t].sizes()))
      refuse("its tensors differ in shape or dtype from the other clients'");
}

/// Adds the messages' tensors in the order of `all`.
std::vector<at::Tensor> sums_of(const std::vector<const Message*>& all) {
  std::vector<at::Tensor> sums;
  for (size_t t = 0; t < all.front()->tensors.size(); ++t) {
    const at::Tensor& first = all.front()->tensors[t];
    at::Tensor sum = at::empty_like(first);
    std::vector<const void*> inputs;
    for (const Message* message : all) inputs.push_back(message->tensors[t].data_ptr());
    void* const output = sum.data_ptr();
    reduce(first.scalar_type(), ReduceOp::sum, inputs, {&output, 1}, first.numel());
    sums.push_back(std::move(sum));
  }
  return sums;
}

}  // namespace

Gathering::Key Gathering::key_of(const Message& message, int client) const {
  const auto refuse = [&](const char* why) {
    fail_run({fmt::format("client {}", client), "called a collective", why, ""});
  };
  const bool meanwhile = message.verb == Verb::sum_meanwhile || message.verb == Verb::gather;
  const bool has_value = message.verb == Verb::total;
  if (has_value && message.numbers.empty()) refuse("the number to add is missing");
  if (message.verb == Verb::gather && message.tensors.size() != 1) refuse("it must have exactly one tensor");
  if (message.verb != Verb::gather)
    for (const at::Tensor& tensor : message.tensors)
      if (!can_reduce(tensor.scalar_type())) refuse("its tensors cannot be added");
  std::vector<int> members;
  for (size_t i = has_value ? 1 : 0; i < message.numbers.size(); ++i) {
    const double number = message.numbers[i];
    if (!(number >= 0 && number < clients_) || number != std::floor(number)) refuse("its members are not valid");
    members.push_back(int(number));
  }
  if (members.empty()) {
    members.resize(size_t(clients_));
    std::iota(members.begin(), members.end(), 0);
  }
  const bool ascending = std::adjacent_find(members.begin(), members.end(), std::greater_equal<>()) == members.end();
  if (!ascending || !std::binary_search(members.begin(), members.end(), client)) refuse("its members are not valid");
  return {meanwhile, std::move(members)};
}

bool Gathering::is_complete(const Key& key, const Queues& queues, const std::vector<bool>& here) {
  if (queues.empty()) return false;
  return std::all_of(key.second.begin(), key.second.end(),
                     [&](int member) { return queues.contains(member) || !here[size_t(member)]; });
}

std::vector<Gathering::Answer> Gathering::finish(Queues& queues, double now) {
  std::vector<int> members;
  std::vector<Brought> brought;
  for (auto it = queues.begin(); it != queues.end();) {
    members.push_back(it->first);
    brought.push_back(std::move(it->second.front()));
    it->second.pop_front();
    it = it->second.empty() ? queues.erase(it) : std::next(it);
  }
  std::vector<const Message*> all;
  for (size_t i = 0; i < members.size(); ++i) {
    all.push_back(&brought[i].message);
    check_alike(*all.front(), *all.back(), members[i]);
  }
  Message answer{.verb = Verb::answer};
  double total = 0, last = 0;
  for (const Brought& each : brought) last = std::max(last, each.came);
  if (all.front()->verb == Verb::total)
    for (const Message* message : all) total += message->numbers.front();
  else if (all.front()->verb == Verb::gather)
    for (const Message* message : all) answer.tensors.push_back(message->tensors.front());
  else answer.tensors = sums_of(all);
  std::vector<Answer> answers;
  for (size_t i = 0; i < members.size(); ++i) {
    answer.ticket = brought[i].message.ticket;
    answer.numbers = {std::min(now, last) - brought[i].came, double(members.size()), double(members.front()), total};
    answers.push_back({members[i], answer});
  }
  return answers;
}

std::vector<Gathering::Answer> Gathering::add(int client, Message message, double now, const std::vector<bool>& here) {
  const Key key = key_of(message, client);
  Queues& queues = open_[key];
  std::deque<Brought>& mine = queues[client];
  if (mine.size() >= kMostOpen)
    fail_run({fmt::format("client {}", client), fmt::format("{} collectives", mine.size()),
              fmt::format("at most {} may be in progress at a time", kMostOpen), ""});
  mine.push_back({std::move(message), now});
  return is_complete(key, queues, here) ? finish(queues, now) : std::vector<Answer>{};
}

void Gathering::forget(int client) {
  for (auto& [key, queues] : open_) queues.erase(client);
}

std::vector<Gathering::Answer> Gathering::without(const std::vector<bool>& here, double now) {
  std::vector<Answer> all;
  for (auto& [key, queues] : open_)
    while (is_complete(key, queues, here)) {
      std::vector<Answer> answers = finish(queues, now);
      std::move(answers.begin(), answers.end(), std::back_inserter(all));
    }
  return all;
}

}  // namespace trireme
