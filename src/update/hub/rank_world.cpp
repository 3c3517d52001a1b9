#include "update/hub/rank_world.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "comm/flight_recorder.h"
#include "comm/group_member.h"
#include "comm/virtual/virtual_time.h"
#include "trireme/error.h"
#include "update/hub/communicator_hub.h"
#include "update/hub/hub_counts.h"

namespace trireme {
namespace {

using What = VirtualTime::Untimed::What;

// Tags of messages between rank 0 and another rank, in their group of two.
constexpr int64_t kRequestTag = 0, kReplyTag = 1, kCountsTag = 2, kAnswerTag = 3;

// Numbers at the front of a request; the request's own follow. A message without numbers says that the replica leaves.
constexpr size_t kShard = 0, kOperation = 1, kRequestTensors = 2, kMetered = 3, kRequestHead = 4;
constexpr double kReport = -1;  // in place of a shard: a report, which one number answers
// Numbers at the front of a reply.
constexpr size_t kIdle = 0, kReplyTensors = 1, kReplyHead = 2;

void send_numbers(Communicator& to_one, const std::vector<double>& numbers, int to, int64_t tag) {
  at::Tensor tensor = at::empty({int64_t(numbers.size())}, at::kDouble);
  std::copy(numbers.begin(), numbers.end(), tensor.data_ptr<double>());
  to_one.send(tensor, to, tag);
}

std::vector<double> receive_numbers(Communicator& from_one, int from, int64_t tag) {
  const at::Tensor tensor = from_one.receive_shared(from, tag);
  std::vector<double> numbers(size_t(tensor.numel()));
  std::copy_n(tensor.data_ptr<double>(), tensor.numel(), numbers.begin());
  return numbers;
}

std::vector<at::Tensor> receive_tensors(Communicator& from_one, double count, int from, int64_t tag) {
  std::vector<at::Tensor> tensors;
  while (double(tensors.size()) < count) tensors.push_back(from_one.receive_shared(from, tag));
  return tensors;
}

/// Visits of a replica on another rank than the server. Sent tensors stay unchanged until the answer, and so until they
/// are received.
class VisitsByMessage final : public Visits {
 public:
  VisitsByMessage(int replica, std::unique_ptr<Communicator> pair) : replica_(replica), pair_(std::move(pair)) {}

  Answers visit(std::vector<Hub::ShardRequest> requests, bool metered) override {
    const VirtualTime::Untimed quiet(metered ? What::nothing : What::everything);
    const auto in_turn = [&](size_t k) { return (k + size_t(replica_)) % requests.size(); };
    for (size_t k = 0; k < requests.size(); ++k) {
      const auto& [shard, request] = requests[in_turn(k)];
      send(double(shard), request, metered);
    }
    Answers answers{.replies = std::vector<Reply>(requests.size())};
    for (size_t k = 0; k < requests.size(); ++k) {
      const std::vector<double> numbers = receive_numbers(*pair_, 0, kReplyTag);
      answers.idle_seconds += numbers.at(kIdle);
      answers.replies[in_turn(k)] = {receive_tensors(*pair_, numbers.at(kReplyTensors), 0, kReplyTag),
                                     {numbers.begin() + kReplyHead, numbers.end()}};
    }
    return answers;
  }

  void report(const Request& request) { send(kReport, request, /*metered=*/false); }
  /// Waits for the answer to the oldest report that has none yet.
  int64_t answer() { return int64_t(receive_numbers(*pair_, 0, kAnswerTag).at(0)); }
  void leave() { send_numbers(*pair_, {}, 0, kRequestTag); }

 private:
  void send(double shard, const Request& request, bool metered) {
    std::vector<double> numbers = {shard, double(request.operation), double(request.tensors.size()),
                                   metered ? 1.0 : 0.0};
    numbers.insert(numbers.end(), request.numbers.begin(), request.numbers.end());
    send_numbers(*pair_, numbers, 0, kRequestTag);
    for (const at::Tensor& tensor : request.tensors) pair_->send(tensor, 0, kRequestTag);
  }

  const int replica_;
  const std::unique_ptr<Communicator> pair_;  ///< with rank 0
};

std::vector<int> all_of(const Communicator& communicator) {
  std::vector<int> ranks(size_t(communicator.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// Marks a group as used on rank 0 by a thread other than the rank's main thread. Then it is no error if one rank waits
/// in this group for the other, which at the same time waits for the first in a collective of another group.
std::unique_ptr<Communicator> beside(std::unique_ptr<Communicator> group) {
  if (auto* const member = dynamic_cast<GroupMember*>(group.get())) member->work_beside();
  return group;
}

/// Returns the world in which the additional threads of this rank wait, in the rank's time.
LocalWorld waiting_room(VirtualTime* time) {
  return time ? LocalWorld(1, std::shared_ptr<VirtualTime>(std::shared_ptr<void>(), time))
              : LocalWorld(1);  // the time outlives all of them
}

}  // namespace

class RankHub final : public CommunicatorHub {
 public:
  RankHub(RankWorld& world, HubEnds ends, VisitsByMessage* messages)
      : CommunicatorHub(world.leaders_.rank(), world.leaders_.size()),
        world_(world),
        messages_(messages),
        recorder_(flight_recorder(world.leaders_)) {
    ends.control->barrier();
    const double start = ends.control->now();
    connect(std::move(ends), start);
  }

  bool reports() const override { return world_.on_report_ && replica() > 0; }
  /// Also takes the answer to the previous report, which has usually arrived while the replica worked.
  void report(Request request) override {
    const VirtualTime::Untimed quiet(What::everything);
    messages_->report(request);
    ++unanswered_;
    take_answers(1);
  }
  void confirm_reports() override {
    const VirtualTime::Untimed quiet(What::everything);
    take_answers(0);
  }
  int64_t announced() const override { return announced_; }

  /// Replicas exchange after many steps, which may take any time. So other ranks wait as long as this rank shows signs
  /// of life.
  void begin_step() override {
    CommunicatorHub::begin_step();
    if (!recorder_) return;
    recorder_->begin_step(++steps_);
    working_.emplace(recorder_, "training its replica");
  }
  void end_step() override {
    working_.reset();
    CommunicatorHub::end_step();
  }

  void leave() override {
    confirm_reports();
    if (messages_) messages_->leave();
    if (replica() > 0) send_numbers(*ends().control, numbers_of(counts_), 0, kCountsTag);
    else world_.wait_for_the_others(*ends().control);
    world_.has_left_ = true;
  }

 private:
  /// Waits until at most `left` reports have no answer.
  void take_answers(int left) {
    for (; unanswered_ > left; --unanswered_) announced_ = messages_->answer();
  }

  RankWorld& world_;
  VisitsByMessage* const messages_;  ///< owned by its ends; null: none
  int unanswered_ = 0;               ///< number of reports without an answer
  int64_t announced_ = 0;
  FlightRecorder* const recorder_;  ///< null: no process reads it
  int64_t steps_ = 0;
  std::optional<LongWork> working_;  ///< set during a step
};

RankWorld::RankWorld(Communicator& leaders, ShardServer* server, OnReport on_report)
    : leaders_(leaders),
      on_report_(std::move(on_report)),
      waiting_(waiting_room(leaders.virtual_time())),
      counts_(size_t(leaders.size())) {
  VirtualTime* const time = leaders.virtual_time();
  const std::vector<int> all = all_of(leaders);
  HubEnds ends{leaders.group(all), leaders.group(all), leaders.group(all), nullptr};
  VisitsByMessage* messages = nullptr;
  const double start = leaders.now();
  const bool has_messages = server || on_report_;
  if (has_messages && leaders.rank() > 0) {
    const int pair[] = {0, leaders.rank()};
    auto visits = std::make_unique<VisitsByMessage>(leaders.rank(), beside(leaders.group(pair)));
    messages = visits.get();
    ends.visits = std::move(visits);
  } else if (has_messages) {
    if (server) {
      host_.emplace(
          *server, waiting_, start,
          time ? std::function<std::string()>() : [&leaders] { return leaders.abort_reason(); });
      ends.visits = visits_in_memory(0, *host_);
    }
    for (int replica = 1; replica < leaders.size(); ++replica) {
      const int pair[] = {0, replica};
      pairs_.push_back(beside(leaders.group(pair)));
    }
  }
  hub_ = std::make_unique<RankHub>(*this, std::move(ends), messages);
  for (size_t i = 0; i < pairs_.size(); ++i)
    threads_.emplace_back([this, i, runner = time ? time->add() : 0] { serve(int(i) + 1, *pairs_[i], runner); });
}

RankWorld::~RankWorld() {
  if (!has_left_ && leaders_.abort_reason().empty())
    leaders_.abort(fmt::format("replica {} ended before its work was done", leaders_.rank()));
  for (std::thread& thread : threads_) thread.join();
}

Hub& RankWorld::hub(int replica) {
  check_internal(replica == leaders_.rank(), "a rank has its own replica's end only");
  return *hub_;
}

FlightRecorder* RankWorld::recorder() { return flight_recorder(leaders_); }

HubCounts RankWorld::counts(int replica) {
  return replica == leaders_.rank() ? hub_->counts() : counts_.at(size_t(replica));
}

void RankWorld::run(const std::function<void(Hub&)>& body) {
  try {
    hub_->enter();
    body(*hub_);
    hub_->leave();
  } catch (const std::exception& error) {
    abort(fmt::format("replica {} failed: {}", leaders_.rank(), first_line(error)));
    throw;
  }
}

void RankWorld::answer_report(int replica, Request report, Communicator& pair) {
  for (at::Tensor& tensor : report.tensors) tensor = tensor.clone();
  const std::vector<double> answer(1, double(on_report_(replica, std::move(report))));
  send_numbers(pair, answer, 1, kAnswerTag);
}

void RankWorld::serve(int replica, Communicator& pair, int runner) {
  at::get_num_threads();  // otherwise the first operator would set its own number
  at::set_num_threads(1);
  VirtualTime* const time = leaders_.virtual_time();
  try {
    if (time) time->enter(runner);
    while (true) {
      const std::vector<double> numbers = receive_numbers(pair, 1, kRequestTag);
      if (numbers.empty()) break;
      const VirtualTime::Untimed quiet(numbers.at(kMetered) != 0 ? What::nothing : What::everything);
      Request request{.operation = int(numbers.at(kOperation)),
                      .tensors = receive_tensors(pair, numbers.at(kRequestTensors), 1, kRequestTag),
                      .numbers = {numbers.begin() + kRequestHead, numbers.end()}};
      if (numbers.at(kShard) == kReport) {
        answer_report(replica, std::move(request), pair);
        continue;
      }
      double idle = 0;
      const Reply reply = host_->serve(int(numbers.at(kShard)), replica, request, idle);
      std::vector<double> head = {idle, double(reply.tensors.size())};
      head.insert(head.end(), reply.numbers.begin(), reply.numbers.end());
      send_numbers(pair, head, 1, kReplyTag);
      for (const at::Tensor& tensor : reply.tensors) pair.send(tensor, 1, kReplyTag);
    }
  } catch (const std::exception& error) {
    leaders_.abort(fmt::format("replica {}'s visit failed: {}", replica,
                               first_line(error)));  // does nothing if an abort ended the visit
  }
  waiting_.advance(served_);
  if (time) time->leave();
}

void RankWorld::wait_for_the_others(Communicator& control) {
  waiting_.wait_for(served_, int64_t(threads_.size()), std::numeric_limits<double>::infinity(),
                    "the other replicas to leave");
  for (int replica = 1; replica < replicas(); ++replica)
    counts_[size_t(replica)] = counts_from(receive_numbers(control, replica, kCountsTag));
}

}  // namespace trireme
