#include "update/hub/shard_host.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "trireme/error.h"
#include "update/hub/hub_world.h"

namespace trireme {
namespace {

// between two checks of the deadline, which other visits may move, and of the end of the run
constexpr double kLookSeconds = 0.05;
constexpr double kNever = std::numeric_limits<double>::infinity();

class VisitsInMemory final : public Visits {
 public:
  VisitsInMemory(int replica, ShardHost& host, EmulatedLinks* links, int server)
      : replica_(replica), server_(server), host_(host), links_(links) {}

  Answers visit(std::vector<Hub::ShardRequest> requests, bool metered) override {
    EmulatedLinks* const links = metered ? links_ : nullptr;
    Answers answers{.replies = std::vector<Reply>(requests.size())};
    for (size_t k = 0; k < requests.size();
         ++k) {  // each replica begins with another shard, so that they do not all wait for the first
      const size_t i = (k + size_t(replica_)) % requests.size();
      const Request& request = requests[i].request;
      if (links) std::this_thread::sleep_until(links->message(replica_, server_, bytes_of(request.tensors)));
      double idle = 0;
      answers.replies[i] = host_.serve(requests[i].shard, replica_, request, idle);
      answers.idle_seconds += idle;
      if (links) std::this_thread::sleep_until(links->message(server_, replica_, bytes_of(answers.replies[i].tensors)));
    }
    return answers;
  }

 private:
  const int replica_, server_;  ///< workers of the links
  ShardHost& host_;
  EmulatedLinks* const links_;  ///< null: none
};

}  // namespace

ShardHost::ShardHost(ShardServer& server, LocalWorld& world, double start, std::function<std::string()> ended)
    : server_(server), world_(world), start_(start), ended_(std::move(ended)), shards_(size_t(server.shards())) {}

void ShardHost::fail_if_ended(int replica) const {
  const std::string reason = ended_ ? ended_() : world_.abort_reason();
  if (!reason.empty())
    throw StoppedError({fmt::format("replica {}", replica), "visit to the parameter server", reason, ""});
}

void ShardHost::offer_parked(int shard, Shard& place) {
  std::vector<Parked*>& queue = place.parked;
  for (bool again = true; again;) {
    again = false;
    for (size_t i = 0; i < queue.size();) {
      Parked& parked = *queue[i];
      parked.reply = server_.serve(shard, parked.replica, parked.request, now());
      if (!parked.reply) {
        ++i;
        continue;
      }
      queue.erase(queue.begin() + std::ptrdiff_t(i));
      world_.advance(parked.answers);
      again = true;
    }
  }
}

/// A request that still waits after its deadline is retried at the next visit of another replica.
void ShardHost::wait_for_answer(int shard, Shard& place, Parked& parked) {
  while (!parked.reply) {
    const double deadline = server_.deadline(shard);
    double until = deadline > now() ? deadline + start_ : kNever;
    if (ended_) until = std::min(until, world_.now() + kLookSeconds);
    {
      const MutexUnlock unlock(place.mutex);
      world_.wait_for(parked.answers, 1, until, "the parameter server");
    }
    fail_if_ended(parked.replica);
    if (!parked.reply && now() >= deadline) offer_parked(shard, place);
  }
}

Reply ShardHost::serve(int shard, int replica, const Request& request, double& idle_seconds) {
  const c10::InferenceMode
      inference;  // workers train in inference mode, and only threads in that mode may write to tensors made in it
  check_internal(shard >= 0 && shard < int(shards_.size()), "a visit goes to a shard that there is");
  Shard& place = shards_[size_t(shard)];
  const double came = world_.now();
  MutexLock lock(place.mutex);
  fail_if_ended(replica);
  idle_seconds = world_.now() - came;
  std::optional<Reply> reply = server_.serve(shard, replica, request, now());
  if (reply) {
    offer_parked(shard, place);
    return std::move(*reply);
  }
  Parked parked{replica, request, std::nullopt};
  place.parked.push_back(&parked);
  struct Leaving {  // leaves the queue, however this function ends
    std::vector<Parked*>& queue;
    Parked* const me;
    ~Leaving() { std::erase(queue, me); }
  };
  const Leaving leaving{place.parked, &parked};
  wait_for_answer(shard, place, parked);
  idle_seconds = world_.now() - came;
  return std::move(*parked.reply);
}

std::unique_ptr<Visits> visits_in_memory(int replica, ShardHost& host, EmulatedLinks* links, int server) {
  return std::make_unique<VisitsInMemory>(replica, host, links, server);
}

}  // namespace trireme
