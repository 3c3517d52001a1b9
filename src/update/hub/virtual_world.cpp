#include "update/hub/virtual_world.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/touched_bytes.h"
#include "comm/virtual/virtual_time.h"
#include "trireme/error.h"
#include "update/hub/communicator_hub.h"

namespace trireme {
namespace {

using Queue = Attendance::What::Queue;

std::vector<LinkSpeed> connections_of(const VirtualLinks& links, int replicas) {
  check_internal(!links.replicas.empty(), "replicas have links");
  std::vector<LinkSpeed> connections;
  for (int r = 0; r < replicas; ++r)
    connections.push_back(links.replicas[std::min(size_t(r), links.replicas.size() - 1)]);
  connections.resize(connections.size() + size_t(std::max(1, links.server_machines)), links.server);
  return connections;
}

}  // namespace

/// All requests are sent at once and served in the order of their arrival.
class VirtualWorld::VisitsOverLinks final : public Visits {
 public:
  VisitsOverLinks(int replica, VirtualWorld& world) : replica_(replica), world_(world) {}

  Answers visit(std::vector<Hub::ShardRequest> requests, bool metered) override {
    world_.fail_if_aborted(replica_);
    struct Trip {
      size_t index;
      double arrival;
    };
    std::vector<Trip> trips;
    const double set_out = world_.time_->now();
    for (size_t i = 0; i < requests.size(); ++i) {
      const int machine = world_.machine_of(requests[i].shard);
      trips.push_back({i, metered
                              ? world_.links_.message(replica_, machine, bytes_of(requests[i].request.tensors), set_out)
                              : set_out});
    }
    std::stable_sort(trips.begin(), trips.end(), [](const Trip& a, const Trip& b) { return a.arrival < b.arrival; });
    Answers answers{.replies = std::vector<Reply>(requests.size())};
    double back = set_out;
    for (const Trip& trip : trips) {
      const Hub::ShardRequest& asked = requests[trip.index];
      move_to(trip.arrival);
      double idle = 0;
      answers.replies[trip.index] = world_.host_->serve(asked.shard, replica_, asked.request, idle);
      answers.idle_seconds += idle;
      if (!metered) continue;
      const int64_t down = bytes_of(answers.replies[trip.index].tensors);
      back = std::max(back, world_.links_.message(world_.machine_of(asked.shard), replica_, down, world_.time_->now()));
    }
    move_to(back);
    return answers;
  }

 private:
  /// If no time passes, the thread keeps its turn, and no other runner runs in between.
  void move_to(double time) {
    if (time > world_.time_->now()) world_.time_->advance_to(time);
  }

  const int replica_;
  VirtualWorld& world_;
};

/// Attendance records arrivals at an exchange and determines its end time. The communicators transfer the tensors in no
/// time.
class VirtualHub final : public CommunicatorHub {
 public:
  VirtualHub(int replica, int replicas, VirtualWorld& world) : CommunicatorHub(replica, replicas), world_(world) {}

  void enter() override {
    std::unique_ptr<Communicator> all = world_.world_.communicator(replica());  // its destruction leaves the clock
    const std::vector<int> everyone = checked({});
    std::unique_ptr<Communicator> overlap = all->group(everyone), control = all->group(everyone);
    std::unique_ptr<Visits> visits;
    if (world_.host_) visits = std::make_unique<VirtualWorld::VisitsOverLinks>(replica(), world_);
    connect({std::move(all), std::move(overlap), std::move(control), std::move(visits)}, /*start=*/0);
  }
  void leave() override { disconnect(); }
  /// Called first in every operation. The calling thread may differ from the one that called enter().
  double now() const override {
    world_.time_->go_on_as(replica());
    return world_.time_->now();
  }

  void begin_step() override {}
  void end_step() override {
    const double seconds = world_.times_.seconds(replica(), steps_++);
    const Failures::Work work = world_.failures_.failures.work(replica(), now(), seconds);
    world_.time_->advance_to(work.end);
    if (!work.is_lost) {
      counts_.compute_seconds += seconds;
      return;
    }
    if (!world_.failures_.others_go_on) fail_lost("replica", replica(), work.failed_at);
    is_lost_ = true;
    world_.attendance_.lose(replica());
  }

  double total(double number, std::span<const int> members) override {
    const auto exchange = arrive_and_wait(Queue::control, Collective::barrier, checked(members), {});
    double sum;
    {
      const TouchedBytes::Paused not_of_the_policy;
      sum = CommunicatorHub::total(number, exchange->present);
    }
    pass(*exchange);
    return sum;
  }

  std::vector<at::Tensor> gather(const at::Tensor& tensor, std::span<const int> members) override {
    const auto exchange = arrive_and_wait(Queue::exchange, Collective::all_gather, checked(members), {tensor});
    std::vector<at::Tensor> gathered;
    {
      const TouchedBytes::Paused not_of_the_policy;
      gathered = CommunicatorHub::gather(tensor, exchange->present);
    }
    pass(*exchange);
    return gathered;
  }

  std::unique_ptr<Pending> begin_average(std::vector<at::Tensor> tensors) override {
    const auto exchange = come(Queue::meanwhile, Collective::all_reduce, checked({}), tensors);
    return std::make_unique<OverLinks>(*this, exchange, CommunicatorHub::begin_average(std::move(tensors)));
  }
  std::unique_ptr<Pending> begin_gather(at::Tensor tensor) override {
    const auto exchange = come(Queue::meanwhile, Collective::all_gather, checked({}), {tensor});
    return std::make_unique<OverLinks>(*this, exchange, CommunicatorHub::begin_gather(std::move(tensor)));
  }

 protected:
  int sum(std::span<at::Tensor> tensors, std::span<const int> members) override {
    const auto exchange =
        arrive_and_wait(Queue::exchange, Collective::all_reduce, checked(members), {tensors.begin(), tensors.end()});
    {
      const TouchedBytes::Paused not_of_the_policy;
      CommunicatorHub::sum(tensors, exchange->present);
    }
    pass(*exchange);
    return int(exchange->present.size());
  }

 private:
  using Untimed = VirtualTime::Untimed;

  class OverLinks final : public Pending {
   public:
    OverLinks(VirtualHub& hub, std::shared_ptr<Gathered> exchange, std::unique_ptr<Pending> tensors)
        : hub_(hub), exchange_(std::move(exchange)), tensors_(std::move(tensors)), metered_(hub.metered()) {}
    std::vector<at::Tensor> wait() override {
      const double came = hub_.now();
      hub_.world_.attendance_.wait(*exchange_);
      std::vector<at::Tensor> results = hub_.take_in_no_time(*tensors_);
      if (!metered_) return results;
      hub_.world_.time_->advance_to(exchange_->finish);
      const double blocked = hub_.now() - came, idle = std::clamp(exchange_->ready - came, 0.0, blocked);
      hub_.counts_.idle_seconds += idle;
      hub_.counts_.exchange_seconds += blocked - idle;
      return results;
    }

   private:
    VirtualHub& hub_;
    const std::shared_ptr<Gathered> exchange_;
    const std::unique_ptr<Pending> tensors_;
    const bool metered_;
  };

  std::shared_ptr<Gathered> come(Queue queue, Collective collective, std::vector<int> members,
                                 std::vector<at::Tensor> tensors) {
    came_ = now();
    world_.fail_if_aborted(replica());
    return world_.attendance_.come({queue, collective, metered()}, std::move(members), replica(), std::move(tensors));
  }
  /// Waits until all members have arrived.
  std::shared_ptr<Gathered> arrive_and_wait(Queue queue, Collective collective, std::vector<int> members,
                                            std::vector<at::Tensor> tensors) {
    auto exchange = come(queue, collective, std::move(members), std::move(tensors));
    world_.attendance_.wait(*exchange);
    return exchange;
  }
  /// Waits until the exchange has ended.
  void pass(const Gathered& exchange) {
    if (!metered()) return;
    world_.time_->advance_to(exchange.finish);
    counts_.idle_seconds += exchange.ready - came_;
    counts_.exchange_seconds += exchange.finish - exchange.ready;
  }
  /// All members have arrived, so the tensors are transferred without any time passing.
  std::vector<at::Tensor> take_in_no_time(Pending& pending) {
    const Untimed quiet(Untimed::What::everything);
    return pending.wait();
  }

  VirtualWorld& world_;
  int64_t steps_ = 0;
  double came_ = 0;  ///< time of arrival at its last exchange
};

VirtualWorld::VirtualWorld(int replicas, const StepTimes& times, VirtualLinks links, ShardServer* server,
                           VirtualFailures failures)
    : server_machines_(std::max(1, links.server_machines)),
      times_(times),
      failures_(std::move(failures)),
      time_(std::make_shared<VirtualTime>(replicas, nullptr, "replica")),
      world_(replicas, time_),
      links_(connections_of(links, replicas)),
      attendance_(*time_, links_, "replicas") {
  if (server) host_.emplace(*server, world_, /*start=*/0, std::function<std::string()>());
  for (int r = 0; r < replicas; ++r) hubs_.push_back(std::make_unique<VirtualHub>(r, replicas, *this));
}

VirtualWorld::~VirtualWorld() = default;

void VirtualWorld::compute(int replica, double seconds) {
  const double began = hubs_.at(size_t(replica))->now();
  time_->advance_to(began + seconds);
}

Hub& VirtualWorld::hub(int replica) { return *hubs_.at(size_t(replica)); }

void VirtualWorld::fail_if_aborted(int replica) const {
  if (world_.aborted())
    throw StoppedError({fmt::format("replica {}", replica), "on the modelled clock", world_.abort_reason(), ""});
}

}  // namespace trireme
