#include "update/hub/communicator_hub.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <functional>
#include <future>
#include <utility>

#include "comm/formulas.h"
#include "comm/virtual/virtual_time.h"
#include "trireme/error.h"
#include "update/hub/hub_world.h"

namespace trireme {

using What = VirtualTime::Untimed::What;

int64_t sum_bytes(std::span<const at::Tensor> tensors, int members, int index) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors)
    bytes += all_reduce_bytes(tensor.numel(), int64_t(tensor.element_size()), members, index);
  return bytes;
}

class CommunicatorHub::Overlapped final : public Pending {
 public:
  Overlapped(CommunicatorHub& hub, std::shared_ptr<std::vector<at::Tensor>> results, std::future<OperationDone> done)
      : hub_(hub), results_(std::move(results)), done_(std::move(done)), metered_(hub.metered()) {}

  std::vector<at::Tensor> wait() override {
    const double began = hub_.now();
    const OperationDone done = done_.get();
    if (metered_) {  // tensors move after all have arrived, that is, at the end of the operation's time
      const double blocked = hub_.now() - began;
      const double moving = std::clamp(done.end - done.begin - done.count.wait_seconds, 0.0, blocked);
      hub_.counts_.exchange_seconds += moving;
      hub_.counts_.idle_seconds += blocked - moving;
    }
    return std::move(*results_);
  }

 private:
  CommunicatorHub& hub_;
  const std::shared_ptr<std::vector<at::Tensor>> results_;
  std::future<OperationDone> done_;
  const bool metered_;
};

void CommunicatorHub::connect(HubEnds ends, double start) {
  ends_ = std::move(ends);
  start_ = start;
}

void CommunicatorHub::disconnect() {
  queue_.reset();
  exchange_groups_.clear();
  control_groups_.clear();
  ends_ = {};
}

Communicator& CommunicatorHub::group_of(const std::vector<int>& members, bool of_control) {
  Communicator& all = of_control ? *ends_.control : *ends_.exchange;
  if (int(members.size()) == replicas()) return all;
  std::unique_ptr<Communicator>& group = (of_control ? control_groups_ : exchange_groups_)[members];
  if (!group) group = all.group(members);
  return *group;
}

void CommunicatorHub::count(int64_t bytes_sent, int64_t bytes_received) {
  if (!metered()) return;
  ++counts_.collectives;
  counts_.bytes_sent += bytes_sent;
  counts_.bytes_received += bytes_received;
}

double CommunicatorHub::total(double number, std::span<const int> members) {
  at::Tensor value = at::full({1}, number, at::kDouble);
  Communicator& group = group_of(checked(members), /*of_control=*/true);
  const double before = group.count().wait_seconds;
  const VirtualTime::Untimed takes_no_time(metered() ? What::transfers : What::everything);
  group.all_reduce(value);
  if (metered()) counts_.idle_seconds += group.count().wait_seconds - before;
  return value.item<double>();
}

int CommunicatorHub::sum(std::span<at::Tensor> tensors, std::span<const int> members) {
  const std::vector<int> list = checked(members);
  const int n = int(list.size()), index = int(std::lower_bound(list.begin(), list.end(), replica()) - list.begin());
  count(sum_bytes(tensors, n, index), sum_bytes(tensors, n, (index + n - 1) % n));
  meet(list, [&](Communicator& group) {
    for (at::Tensor& tensor : tensors) group.all_reduce(tensor);
  });
  return n;
}

std::vector<at::Tensor> CommunicatorHub::gather(const at::Tensor& tensor, std::span<const int> members) {
  const std::vector<int> list = checked(members);
  const int64_t bytes = int64_t(list.size() - 1) * int64_t(tensor.nbytes());
  count(bytes, bytes);
  std::vector<at::Tensor> gathered;
  gathered.reserve(list.size());
  while (gathered.size() < list.size()) gathered.push_back(at::empty_like(tensor));
  meet(list, [&](Communicator& group) { group.all_gather(tensor, gathered); });
  return gathered;
}

void CommunicatorHub::meet(const std::vector<int>& members, const std::function<void(Communicator& group)>& operation) {
  Communicator& group = group_of(members, /*of_control=*/!metered());
  const double waited_before = group.count().wait_seconds, began = now();
  const VirtualTime::Untimed quiet(metered() ? What::nothing : What::everything);
  operation(group);
  if (!metered()) return;
  const double waited = group.count().wait_seconds - waited_before;
  counts_.idle_seconds += waited;
  counts_.exchange_seconds += std::max(0.0, now() - began - waited);
}

std::unique_ptr<Pending> CommunicatorHub::begin(std::vector<at::Tensor> tensors, Exchange exchange) {
  if (!queue_) queue_ = std::make_unique<CollectiveQueue>(std::move(ends_.overlap));
  auto results = std::make_shared<std::vector<at::Tensor>>(std::move(tensors));
  std::future<OperationDone> done = queue_->start([results, exchange = std::move(exchange)](Communicator& group) {
    const c10::InferenceMode
        inference;  // workers train in inference mode, and only threads in that mode may write to tensors made in it
    exchange(group, *results);
  });
  return std::make_unique<Overlapped>(*this, std::move(results), std::move(done));
}

std::unique_ptr<Pending> CommunicatorHub::begin_average(std::vector<at::Tensor> tensors) {
  count(sum_bytes(tensors, replicas(), replica()),
        sum_bytes(tensors, replicas(), (replica() + replicas() - 1) % replicas()));
  return begin(std::move(tensors), [n = double(replicas())](Communicator& group, std::vector<at::Tensor>& values) {
    for (at::Tensor& value : values) {
      group.all_reduce(value);
      value.div_(n);
    }
  });
}

std::unique_ptr<Pending> CommunicatorHub::begin_gather(at::Tensor tensor) {
  const int64_t bytes = (replicas() - 1) * int64_t(tensor.nbytes());
  count(bytes, bytes);
  return begin({std::move(tensor)}, [n = size_t(replicas())](Communicator& group, std::vector<at::Tensor>& values) {
    const at::Tensor mine = std::move(values.front());
    values.clear();
    while (values.size() < n) values.push_back(at::empty_like(mine));
    group.all_gather(mine, values);
  });
}

std::vector<Reply> CommunicatorHub::visit(std::vector<ShardRequest> requests) {
  check_internal(ends_.visits != nullptr, "a replica visits where there is a server");
  const double set_out = now();
  int64_t up = 0, down = 0;
  const size_t visits = requests.size();
  for (const ShardRequest& asked : requests) up += bytes_of(asked.request.tensors);
  Visits::Answers answers = ends_.visits->visit(std::move(requests), metered());
  if (!metered()) return std::move(answers.replies);
  for (const Reply& reply : answers.replies) down += bytes_of(reply.tensors);
  counts_.visits += int64_t(visits);
  counts_.bytes_sent += up;
  counts_.bytes_received += down;
  counts_.idle_seconds += answers.idle_seconds;
  counts_.exchange_seconds += now() - set_out - answers.idle_seconds;
  return std::move(answers.replies);
}

}  // namespace trireme
