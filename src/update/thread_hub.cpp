#include "update/thread_hub.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <future>
#include <map>
#include <thread>

#include "base/error.h"
#include "comm/formulas.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kFarAway = 1e6;  // seconds: deadlines beyond are none

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// A thread that does one job after another.
class Background final {
 public:
  struct Done {
    std::vector<at::Tensor> tensors;
    double exchange_seconds = 0;  ///< of the job, without its waits for others
  };
  using Job = std::function<Done()>;

  ~Background() {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  std::future<Done> begin(Job job) {
    std::packaged_task<Done()> task(std::move(job));
    auto result = task.get_future();
    {
      std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(task));
    }
    changed_.notify_one();
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    return result;
  }

 private:
  void work() {
    c10::InferenceMode inference;  // workers train under it, and what they made may be written to by such threads only
    at::get_num_threads();
    at::set_num_threads(1);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
      if (ending_) return;
      auto job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      lock.lock();
    }
  }

  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<Done()>> jobs_;  // guarded by mutex_
  bool ending_ = false;                          // guarded by mutex_
};

}  // namespace

class ThreadHub final : public Hub {
 public:
  ThreadHub(int replica, ThreadWorld& world)
      : Hub(replica, world.exchange_.size()), world_(world), exchange_(world.exchange_.communicator(replica)),
        overlap_(world.overlap_.communicator(replica)), control_(world.control_.communicator(replica)) {}

  void enter() override {}
  void leave() override {}

  double total(double number, std::span<const int> members) override {
    at::Tensor value = at::full({1}, number, at::kDouble);
    Communicator& group = group_of(*control_, control_groups_, checked(members));
    const double before = group.count().wait_seconds;
    group.all_reduce(value);
    if (metered()) counts_.idle_seconds += group.count().wait_seconds - before;
    return value.item<double>();
  }

  std::unique_ptr<Pending> begin_average(std::vector<at::Tensor> tensors) override {
    for (at::Tensor& tensor : tensors) tensor = tensor.clone();
    count_ring(tensors, replicas(), replica());
    return begin([this, tensors = std::move(tensors)]() mutable {
      for (at::Tensor& tensor : tensors) {
        overlap_->all_reduce(tensor);
        tensor.div_(double(replicas()));
      }
      return tensors;
    });
  }

  std::unique_ptr<Pending> begin_gather(at::Tensor tensor) override {
    if (metered()) {
      ++counts_.collectives;
      counts_.bytes_sent += (replicas() - 1) * int64_t(tensor.nbytes());
      counts_.bytes_received += (replicas() - 1) * int64_t(tensor.nbytes());
    }
    return begin([this, mine = tensor.clone()] {
      std::vector<at::Tensor> all(static_cast<size_t>(replicas()));
      for (at::Tensor& other : all) other = at::empty_like(mine);
      overlap_->all_gather(mine, all);
      return all;
    });
  }

  std::vector<Reply> visit(std::vector<ShardRequest> requests) override {
    // each begins with another shard, so that they do not all queue up in front of the first
    std::vector<Reply> replies(requests.size());
    for (size_t k = 0; k < requests.size(); ++k) {
      const size_t i = (k + size_t(replica())) % requests.size();
      replies[i] = visit_one(requests[i]);
    }
    return replies;
  }

  double now() const override { return world_.now(); }
  void begin_step() override { step_began_ = Clock::now(); }
  void end_step() override { counts_.compute_seconds += seconds_since(step_began_); }

 protected:
  int sum(std::span<at::Tensor> tensors, std::span<const int> members) override {
    const std::vector<int> list = checked(members);
    const int index = int(std::lower_bound(list.begin(), list.end(), replica()) - list.begin());
    count_ring(tensors, int(list.size()), index);
    Communicator& group = metered() ? group_of(*exchange_, exchange_groups_, list) : group_of(*control_, control_groups_, list);
    const double waited_before = group.count().wait_seconds;
    const auto begin = Clock::now();
    for (at::Tensor& tensor : tensors) group.all_reduce(tensor);
    if (!metered()) return int(list.size());
    const double waited = group.count().wait_seconds - waited_before;
    counts_.idle_seconds += waited;
    counts_.exchange_seconds += std::max(0.0, seconds_since(begin) - waited);
    return int(list.size());
  }

 private:
  using Groups = std::map<std::vector<int>, std::unique_ptr<Communicator>>;

  class Overlapped final : public Pending {
   public:
    Overlapped(std::future<Background::Done> result, HubCounts* counts) : result_(std::move(result)), counts_(counts) {}
    std::vector<at::Tensor> wait() override {
      const auto begin = Clock::now();
      Background::Done done = result_.get();
      if (!counts_) return done.tensors;
      // tensors move once all have come: at the end of the time
      const double blocked = seconds_since(begin), moving = std::clamp(done.exchange_seconds, 0.0, blocked);
      counts_->exchange_seconds += moving;
      counts_->idle_seconds += blocked - moving;
      return done.tensors;
    }

   private:
    std::future<Background::Done> result_;
    HubCounts* const counts_;  ///< null: not metered
  };

  std::unique_ptr<Pending> begin(std::function<std::vector<at::Tensor>()> exchange) {
    Background::Job job = [this, exchange = std::move(exchange)]() -> Background::Done {
      const double waited_before = overlap_->count().wait_seconds;
      const auto begin = Clock::now();
      std::vector<at::Tensor> tensors = exchange();
      return {std::move(tensors), seconds_since(begin) - (overlap_->count().wait_seconds - waited_before)};
    };
    return std::make_unique<Overlapped>(background_.begin(std::move(job)), metered() ? &counts_ : nullptr);
  }

  Communicator& group_of(Communicator& all, Groups& groups, const std::vector<int>& members) {
    if (int(members.size()) == replicas()) return all;
    std::unique_ptr<Communicator>& group = groups[members];
    if (!group) group = all.group(members);
    return *group;
  }

  void count_ring(std::span<const at::Tensor> tensors, int members, int index) {
    if (!metered()) return;
    ++counts_.collectives;
    for (const at::Tensor& tensor : tensors) {
      counts_.bytes_sent += all_reduce_bytes(tensor.numel(), int64_t(tensor.element_size()), members, index);
      counts_.bytes_received += all_reduce_bytes(tensor.numel(), int64_t(tensor.element_size()), members, (index + members - 1) % members);
    }
  }

  /// Until a message of that size has come over the links.
  void travel(int from, int to, int64_t bytes) {
    if (world_.links_ && metered()) std::this_thread::sleep_until(world_.links_->message(from, to, bytes));
  }

  Reply visit_one(const ShardRequest& asked) {
    const auto begin = Clock::now();
    const int64_t up = bytes_of(asked.request.tensors);
    travel(replica(), replicas(), up);
    double idle = 0;
    Reply reply = world_.serve(asked.shard, replica(), asked.request, idle);
    const int64_t down = bytes_of(reply.tensors);
    travel(replicas(), replica(), down);
    if (metered()) {
      ++counts_.visits;
      counts_.bytes_sent += up;
      counts_.bytes_received += down;
      counts_.idle_seconds += idle;
      counts_.exchange_seconds += std::max(0.0, seconds_since(begin) - idle);
    }
    return reply;
  }

  ThreadWorld& world_;
  const std::unique_ptr<Communicator> exchange_, overlap_, control_;
  Groups exchange_groups_, control_groups_;
  Clock::time_point step_began_ = Clock::now();
  Background background_;  ///< last: it uses overlap_
};

ThreadWorld::ThreadWorld(int replicas, ShardServer* server, std::shared_ptr<EmulatedLinks> links)
    : server_(server), links_(std::move(links)), exchange_(replicas, links_), overlap_(replicas, links_), control_(replicas),
      shards_(server ? size_t(server->shards()) : 0) {
  for (int r = 0; r < replicas; ++r) hubs_.push_back(std::make_unique<ThreadHub>(r, *this));
}

ThreadWorld::~ThreadWorld() = default;

Hub& ThreadWorld::hub(int replica) { return *hubs_.at(size_t(replica)); }

double ThreadWorld::now() const { return seconds_since(start_); }

void ThreadWorld::abort(const std::string& reason) {
  exchange_.abort(reason);
  overlap_.abort(reason);
  control_.abort(reason);
  for (Shard& shard : shards_) {
    std::lock_guard lock(shard.mutex);  // whoever is about to wait has seen the abort or will be woken
    shard.changed.notify_all();
  }
}

void ThreadWorld::offer_parked(int shard) {
  Shard& s = shards_[size_t(shard)];
  bool again = !s.parked.empty();
  while (again) {
    again = false;
    for (size_t i = 0; i < s.parked.size();) {
      Parked& parked = *s.parked[i];
      parked.reply = server_->serve(shard, parked.replica, parked.request, now());
      if (parked.reply) s.parked.erase(s.parked.begin() + std::ptrdiff_t(i));
      else ++i;
      again |= parked.reply.has_value();
    }
    if (again) s.changed.notify_all();
  }
}

Reply ThreadWorld::serve(int shard, int replica, const Request& request, double& idle_seconds) {
  check_internal(server_ && shard >= 0 && shard < int(shards_.size()), "a visit goes to a shard that there is");
  Shard& s = shards_[size_t(shard)];
  const auto begin = Clock::now();
  const auto fail_if_aborted = [&] {
    if (control_.aborted()) fail_run({fmt::format("replica {}", replica), "visit to the parameter server", control_.abort_reason(), ""});
  };
  std::unique_lock lock(s.mutex);
  fail_if_aborted();
  idle_seconds = seconds_since(begin);
  std::optional<Reply> reply = server_->serve(shard, replica, request, now());
  if (reply) {
    offer_parked(shard);
    return std::move(*reply);
  }
  struct Place {  // in the queue, left however this ends
    std::vector<Parked*>& queue;
    Parked* const me;
    ~Place() { std::erase(queue, me); }
  };
  Parked me{replica, request, std::nullopt};
  s.parked.push_back(&me);
  const Place place{s.parked, &me};
  while (!me.reply) {
    const double left = server_->deadline(shard) - now();
    if (left <= 0) offer_parked(shard);
    if (me.reply) break;
    // one whose deadline has passed and who is still put off is asked again when somebody else comes
    if (left > 0 && left < kFarAway) s.changed.wait_for(lock, std::chrono::duration<double>(left));
    else s.changed.wait(lock);
    fail_if_aborted();
  }
  idle_seconds = seconds_since(begin);
  return std::move(*me.reply);
}

}  // namespace trireme
