#include "update/virtual_hub.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "comm/formulas.h"
#include "comm/local/reduce_kernels.h"

namespace trireme {
namespace {

/// Sums of the members' tensors, in their order, written to `outputs` of every one of them.
void sum_of(const std::vector<std::vector<at::Tensor>>& inputs, const std::vector<std::vector<at::Tensor>>& outputs) {
  for (size_t t = 0; t < inputs.front().size(); ++t) {
    const at::Tensor& like = inputs.front()[t];
    std::vector<const void*> from;
    std::vector<void*> to;
    for (const auto& tensors : inputs) {
      if (tensors.size() != inputs.front().size() || tensors[t].sizes() != like.sizes() || tensors[t].scalar_type() != like.scalar_type())
        fail_run({"exchange of replicas", fmt::format("tensor {}", t), "members came with tensors that do not fit together", ""});
      check_internal(tensors[t].is_contiguous(), "replicas exchange contiguous tensors");
      from.push_back(tensors[t].data_ptr());
    }
    for (const auto& tensors : outputs) to.push_back(tensors[t].data_ptr());
    reduce(like.scalar_type(), ReduceOp::sum, from, to, like.numel());
  }
}

}  // namespace

/// Collectives that not all members have left.
struct VirtualWorld::Meetings {
  enum class Kind { total, sum, background };
  struct Meeting {
    Kind kind = Kind::total;
    bool metered = true;
    Collective collective = Collective::all_reduce;
    std::vector<int> members;
    int missing = 0;    ///< members to come, without those that are lost
    double ready = 0;   ///< the latest arrival so far
    double finish = 0;
    double total = 0;
    std::map<int, std::vector<at::Tensor>> tensors;  ///< by replica, of those that came
    std::vector<at::Tensor> results;                 ///< of those that go on meanwhile
    std::vector<int> waiting;                        ///< blocked in it
  };
  using Key = std::tuple<Kind, std::vector<int>, int64_t>;

  /// The one that `replica` has come to with its next call of that kind among those members.
  std::shared_ptr<Meeting> join(Kind kind, const std::vector<int>& members, int replica, double now, bool metered) {
    const int64_t number = calls[{kind, members, replica}]++;
    std::shared_ptr<Meeting>& meeting = open[{kind, members, number}];
    if (!meeting) {
      meeting = std::make_shared<Meeting>();
      meeting->kind = kind;
      meeting->metered = metered;
      meeting->members = members;
      meeting->missing = int(std::count_if(members.begin(), members.end(), [&](int member) { return !lost.contains(member); }));
    }
    std::shared_ptr<Meeting> joined = meeting;
    joined->ready = std::max(joined->ready, now);
    if (--joined->missing == 0) open.erase({kind, members, number});
    return joined;
  }

  /// A replica that was computing does not come any more. Those that had only been waiting for it.
  std::vector<std::shared_ptr<Meeting>> lose(int replica, double now) {
    lost.insert(replica);
    std::vector<std::shared_ptr<Meeting>> complete;
    for (auto it = open.begin(); it != open.end();) {
      const std::shared_ptr<Meeting> meeting = it->second;
      const bool has_come = meeting->kind == Kind::background && meeting->tensors.contains(replica);
      const bool is_awaited = std::binary_search(meeting->members.begin(), meeting->members.end(), replica) && !has_come;
      const bool completes = is_awaited && --meeting->missing == 0;
      if (completes) {
        meeting->ready = std::max(meeting->ready, now);
        complete.push_back(meeting);
      }
      it = completes ? open.erase(it) : std::next(it);
    }
    return complete;
  }

  std::set<int> lost;
  std::map<Key, std::shared_ptr<Meeting>> open;
  std::map<std::tuple<Kind, std::vector<int>, int>, int64_t> calls;  ///< by replica
};

class VirtualHub final : public Hub {
 public:
  using Kind = VirtualWorld::Meetings::Kind;
  using Meeting = VirtualWorld::Meetings::Meeting;

  VirtualHub(int replica, int replicas, VirtualWorld& world) : Hub(replica, replicas), world_(world) {}

  void enter() override { world_.clock_.enter(replica()); }
  void leave() override { world_.clock_.leave(replica()); }
  double now() const override { return world_.clock_.time(replica()); }

  void begin_step() override {}
  void end_step() override {
    const double seconds = world_.times_.seconds(replica(), steps_++);
    const Failures::Work work = world_.failures_.failures.work(replica(), now(), seconds);
    world_.clock_.advance_to(replica(), work.end);
    if (!work.is_lost) {
      counts_.compute_seconds += seconds;
      return;
    }
    if (!world_.failures_.others_go_on) fail_lost("replica", replica(), now());
    is_lost_ = true;
    for (const auto& meeting : world_.meetings_->lose(replica(), now())) {
      complete(*meeting);
      let_go(*meeting);
    }
  }

  double total(double number, std::span<const int> members) override {
    const double came = now();
    auto meeting = world_.meetings_->join(Kind::total, checked(members), replica(), came, metered());
    meeting->total += number;
    pass(*meeting, came);
    return meeting->total;
  }

  std::unique_ptr<Pending> begin_average(std::vector<at::Tensor> tensors) override {
    for (at::Tensor& tensor : tensors) tensor = tensor.clone();
    return begin(std::move(tensors), Collective::all_reduce);
  }

  std::unique_ptr<Pending> begin_gather(at::Tensor tensor) override { return begin({tensor.clone()}, Collective::all_gather); }

  std::vector<Reply> visit(std::vector<ShardRequest> requests) override {
    struct Trip {
      size_t index;
      double arrival;
    };
    std::vector<Trip> trips;
    const double set_out = now();
    for (size_t i = 0; i < requests.size(); ++i) {
      const int64_t up = bytes_of(requests[i].request.tensors);
      trips.push_back({i, metered() ? world_.message(replica(), world_.machine_of(requests[i].shard), up, set_out) : set_out});
      if (metered()) counts_.bytes_sent += up;
    }
    std::stable_sort(trips.begin(), trips.end(), [](const Trip& a, const Trip& b) { return a.arrival < b.arrival; });
    std::vector<Reply> replies(requests.size());
    double back = set_out, idle = 0;
    for (const Trip& trip : trips) {
      const ShardRequest& asked = requests[trip.index];
      move_to(trip.arrival);
      replies[trip.index] = serve(asked, idle);
      if (!metered()) continue;
      const int64_t down = bytes_of(replies[trip.index].tensors);
      back = std::max(back, world_.message(world_.machine_of(asked.shard), replica(), down, now()));
      counts_.bytes_received += down;
      ++counts_.visits;
    }
    move_to(back);
    if (metered()) {
      counts_.idle_seconds += idle;
      counts_.exchange_seconds += now() - set_out - idle;
    }
    return replies;
  }

 protected:
  int sum(std::span<at::Tensor> tensors, std::span<const int> members) override {
    const double came = now();
    const std::vector<int> list = checked(members);
    auto meeting = world_.meetings_->join(Kind::sum, list, replica(), came, metered());
    meeting->tensors[replica()].assign(tensors.begin(), tensors.end());
    pass(*meeting, came);
    const std::vector<int> present = present_in(*meeting);
    if (metered()) count(Collective::all_reduce, tensors, int(present.size()), index_in(present));
    return int(present.size());
  }

 private:
  class Overlapped final : public Pending {
   public:
    Overlapped(VirtualHub& hub, std::shared_ptr<Meeting> meeting) : hub_(hub), meeting_(std::move(meeting)), metered_(hub.metered()) {}
    std::vector<at::Tensor> wait() override {
      const double came = hub_.now();
      if (meeting_->missing > 0) {
        meeting_->waiting.push_back(hub_.replica());
        hub_.world_.clock_.block(hub_.replica(), "an exchange that goes on meanwhile");
      } else if (metered_) {
        hub_.world_.clock_.advance_to(hub_.replica(), std::max(came, meeting_->finish));
      }
      if (metered_) {
        const double blocked = hub_.now() - came, idle = std::clamp(meeting_->ready - came, 0.0, blocked);
        hub_.counts_.idle_seconds += idle;
        hub_.counts_.exchange_seconds += blocked - idle;
      }
      return meeting_->results;
    }

   private:
    VirtualHub& hub_;
    const std::shared_ptr<Meeting> meeting_;
    const bool metered_;
  };

  /// On a visit. One that takes no time is not torn apart: nobody else comes in between.
  void move_to(double time) {
    if (time > now()) world_.clock_.advance_to(replica(), time);
  }

  int index_in(const std::vector<int>& members) const {
    return int(std::lower_bound(members.begin(), members.end(), replica()) - members.begin());
  }

  static std::vector<int> present_in(const Meeting& meeting) {
    std::vector<int> present;
    for (const auto& [member, tensors] : meeting.tensors) present.push_back(member);
    return present;
  }

  static int64_t sent(Collective collective, const at::Tensor& tensor, int members, int index) {
    if (collective == Collective::all_gather) return (members - 1) * int64_t(tensor.nbytes());
    return all_reduce_bytes(tensor.numel(), int64_t(tensor.element_size()), members, index);
  }

  void count(Collective collective, std::span<const at::Tensor> tensors, int members, int index) {
    ++counts_.collectives;
    for (const at::Tensor& tensor : tensors) {
      counts_.bytes_sent += sent(collective, tensor, members, index);
      counts_.bytes_received += sent(collective, tensor, members, (index + members - 1) % members);
    }
  }

  /// When the meeting's collective is through. Each tensor is one of its own.
  double over_links(const Meeting& meeting) {
    const std::vector<int> present = present_in(meeting);
    const int n = int(present.size());
    std::vector<int64_t> bytes;
    for (const auto& [member, tensors] : meeting.tensors) {
      const int index = int(bytes.size());
      bytes.push_back(0);
      for (const at::Tensor& tensor : tensors) bytes.back() += sent(meeting.collective, tensor, n, index);
    }
    const int rounds = rounds_of(meeting.collective, n) * int(meeting.tensors.begin()->second.size());
    return world_.collective(present, bytes, rounds, meeting.ready);
  }

  /// What comes of a meeting that nobody is missing from, and when.
  void complete(Meeting& meeting) {
    meeting.finish = meeting.metered && meeting.kind != Kind::total ? over_links(meeting) : meeting.ready;
    if (meeting.kind == Kind::total) return;
    std::vector<std::vector<at::Tensor>> inputs;
    for (const auto& [member, tensors] : meeting.tensors) inputs.push_back(tensors);
    if (meeting.kind == Kind::sum) return sum_of(inputs, inputs);
    meeting.tensors.clear();
    if (meeting.collective == Collective::all_gather) {
      for (const auto& mine : inputs) meeting.results.push_back(mine.front());
      return;
    }
    for (const at::Tensor& tensor : inputs.front()) meeting.results.push_back(at::empty_like(tensor));
    sum_of(inputs, {meeting.results});
    for (at::Tensor& mean : meeting.results) mean.div_(double(inputs.size()));
  }

  /// Those that wait in a meeting that is complete. It takes no time where it is not metered: they come before whoever completed it.
  void let_go(const Meeting& meeting) {
    for (int other : meeting.waiting) world_.clock_.wake(other, meeting.metered ? meeting.finish : world_.clock_.time(other));
  }

  /// Blocks until the meeting is through. The last to come lets the others go on.
  void pass(Meeting& meeting, double came) {
    if (meeting.missing > 0) {
      meeting.waiting.push_back(replica());
      world_.clock_.block(replica(), fmt::format("{} of {} replicas to come to an exchange", meeting.missing, meeting.members.size()));
    } else {
      complete(meeting);
      let_go(meeting);
      world_.clock_.advance_to(replica(), metered() ? meeting.finish : came);
    }
    if (!metered()) return;
    counts_.idle_seconds += meeting.ready - came;
    counts_.exchange_seconds += meeting.finish - meeting.ready;
  }

  std::unique_ptr<Pending> begin(std::vector<at::Tensor> tensors, Collective collective) {
    auto meeting = world_.meetings_->join(Kind::background, checked({}), replica(), now(), metered());
    meeting->collective = collective;
    if (metered()) count(collective, tensors, replicas(), replica());
    meeting->tensors[replica()] = std::move(tensors);
    if (meeting->missing == 0) {
      complete(*meeting);
      let_go(*meeting);
    }
    return std::make_unique<Overlapped>(*this, std::move(meeting));
  }

  Reply serve(const ShardRequest& asked, double& idle) {
    const int shard = asked.shard;
    check_internal(world_.server_ && shard >= 0 && shard < int(world_.parked_.size()), "a visit goes to a shard that there is");
    std::optional<Reply> reply = world_.server_->serve(shard, replica(), asked.request, now());
    if (reply) {
      world_.offer_parked(shard, now(), replica());
      return std::move(*reply);
    }
    const double came = now();
    const auto me = std::make_shared<VirtualWorld::Parked>(VirtualWorld::Parked{replica(), asked.request, std::nullopt});
    world_.parked_[size_t(shard)].push_back(me);
    while (!me->reply) {
      const double deadline = world_.server_->deadline(shard);
      // one whose deadline has passed and who is still put off is asked again when somebody else comes
      world_.clock_.block(replica(), "the parameter server", deadline > now() ? deadline : VirtualClock::kNever);
      if (!me->reply) world_.offer_parked(shard, now(), replica());
    }
    idle += now() - came;
    return std::move(*me->reply);
  }

  VirtualWorld& world_;
  int64_t steps_ = 0;
};

VirtualWorld::VirtualWorld(int replicas, const StepTimes& times, VirtualLinks links, ShardServer* server, VirtualFailures failures)
    : clock_(replicas), replicas_(replicas), server_machines_(std::max(1, links.server_machines)), times_(times), server_(server),
      failures_(std::move(failures)), parked_(server ? size_t(server->shards()) : 0), meetings_(std::make_unique<Meetings>()) {
  check_internal(!links.replicas.empty(), "replicas have links");
  for (int r = 0; r < replicas; ++r) connections_.push_back({links.replicas[std::min(size_t(r), links.replicas.size() - 1)]});
  for (int m = 0; m < server_machines_; ++m) connections_.push_back({links.server});
  for (int r = 0; r < replicas; ++r) hubs_.push_back(std::make_unique<VirtualHub>(r, replicas, *this));
}

VirtualWorld::~VirtualWorld() = default;

Hub& VirtualWorld::hub(int replica) { return *hubs_.at(size_t(replica)); }

double VirtualWorld::message(int from, int to, int64_t bytes, double now) {
  Connection& a = connections_[size_t(from)];
  Connection& b = connections_[size_t(to)];
  const auto share = [bytes](const Connection& c) { return c.speed.bandwidth > 0 ? double(bytes) / c.speed.bandwidth : 0; };
  const double begin = std::max(now, a.out_free);
  a.out_free = begin + share(a);
  b.in_free = std::max(begin, b.in_free) + share(b);
  return std::max(a.out_free, b.in_free) + std::max(a.speed.latency, b.speed.latency);
}

double VirtualWorld::collective(const std::vector<int>& members, const std::vector<int64_t>& bytes, int rounds, double ready) {
  if (members.size() < 2) return ready;
  double begin = ready, transfer = 0, latency = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    const Connection& c = connections_[size_t(members[i])];
    begin = std::max({begin, c.out_free, c.in_free});
    if (c.speed.bandwidth > 0) transfer = std::max(transfer, double(bytes[i]) / c.speed.bandwidth);
    latency = std::max(latency, c.speed.latency);
  }
  for (int member : members) connections_[size_t(member)].out_free = connections_[size_t(member)].in_free = begin + transfer;
  return begin + transfer + rounds * latency;
}

void VirtualWorld::offer_parked(int shard, double now, int runner) {
  std::vector<std::shared_ptr<Parked>>& queue = parked_[size_t(shard)];
  bool again = !queue.empty();
  while (again) {
    again = false;
    for (size_t i = 0; i < queue.size();) {
      const std::shared_ptr<Parked> parked = queue[i];
      parked->reply = server_->serve(shard, parked->replica, parked->request, now);
      if (!parked->reply) {
        ++i;
        continue;
      }
      queue.erase(queue.begin() + std::ptrdiff_t(i));
      if (parked->replica != runner) clock_.wake(parked->replica, now);
      again = true;
    }
  }
}

}  // namespace trireme
