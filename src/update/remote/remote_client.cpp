#include "update/remote/remote_client.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/seconds.h"
#include "base/text.h"
#include "update/hub/hub_counts.h"
#include "update/hub/hub_world.h"

namespace trireme {
namespace {

constexpr double kNetworkWaitSeconds = 0.1;  // wait for the network before an abort of this process is checked
constexpr double kReportSeconds = 0.1;       // reports are combined for this time

std::string client_name(int number) { return number < 0 ? "client" : fmt::format("client {}", number); }

}  // namespace

class RemoteHub final : public Hub {
 public:
  RemoteHub(RemoteClient& client) : Hub(client.number_, client.replicas_), client_(client) {}

  bool joined_late() const override { return client_.joined_late_; }
  bool reports_for_all() const override { return reports_for_all_; }
  int64_t first_step() const override { return client_.first_step_; }
  bool reports() const override { return true; }

  void enter() override {
    client_.wait_for_start();
    reports_for_all_ = client_.is_first_;
  }
  /// Returns when the server has everything: what is not sent when this process ends would be dropped.
  void leave() override { ask({.verb = Verb::leave, .numbers = numbers_of(counts_)}); }

  void report(Request request) override {
    const bool joins =
        has_report_ && report_.operation == request.operation && report_.tensors.empty() && request.tensors.empty();
    if (joins) {
      report_.numbers.insert(report_.numbers.end(), request.numbers.begin(), request.numbers.end());
    } else {
      flush();
      report_ = std::move(request);
      has_report_ = true;
      reported_ = steady_seconds();
    }
    if (!report_.tensors.empty() || steady_seconds() - reported_ > kReportSeconds) flush();
  }

  double total(double number, std::span<const int> members) override {
    if (is_alone(members)) return number;
    Message message{.verb = Verb::total, .numbers = {number}};
    for (const int member : listed(members)) message.numbers.push_back(member);
    const Message answer = ask(std::move(message));
    if (metered()) counts_.idle_seconds += answer.numbers.at(kWaited);
    if (members.empty()) reports_for_all_ = int(answer.numbers.at(kFirst)) == replica();
    return answer.numbers.at(kTotal);
  }

  /// In the background queue, where the server gathers; the replica waits for it.
  std::vector<at::Tensor> gather(const at::Tensor& tensor, std::span<const int> members) override {
    if (is_alone(members)) return {tensor.clone()};
    const double set_out = steady_seconds();
    Message message{.verb = Verb::gather, .tensors = {tensor}};
    for (const int member : listed(members)) message.numbers.push_back(member);
    Message answer = ask(std::move(message));
    if (metered()) {
      ++counts_.collectives;
      counts_.bytes_received += bytes_of(answer.tensors);
      count_time(set_out, answer.numbers.at(kWaited));
    }
    for (at::Tensor& gathered : answer.tensors) gathered = gathered.to(tensor.device());
    return std::move(answer.tensors);
  }

  std::unique_ptr<Pending> begin_average(std::vector<at::Tensor> tensors) override {
    return begin(Verb::sum_meanwhile, std::move(tensors));
  }
  std::unique_ptr<Pending> begin_gather(at::Tensor tensor) override { return begin(Verb::gather, {std::move(tensor)}); }

  std::vector<Reply> visit(std::vector<ShardRequest> requests) override {
    const double set_out = steady_seconds();
    std::vector<uint64_t> tickets;
    for (ShardRequest& asked : requests)
      tickets.push_back(set_off({.verb = Verb::visit,
                                 .shard = asked.shard,
                                 .operation = asked.request.operation,
                                 .numbers = std::move(asked.request.numbers),
                                 .tensors = std::move(asked.request.tensors)}));
    std::vector<Reply> replies;
    double waited = 0;
    for (const uint64_t ticket : tickets) {
      Message answer = client_.wait_for_answer(ticket);
      waited = std::max(waited, answer.numbers.at(kWaited));
      if (metered()) counts_.bytes_received += bytes_of(answer.tensors);
      replies.push_back({std::move(answer.tensors), {answer.numbers.begin() + 1, answer.numbers.end()}});
    }
    if (!metered()) return replies;
    counts_.visits += int64_t(tickets.size());
    count_time(set_out, waited);
    return replies;
  }

  double now() const override { return steady_seconds() + client_.clock_; }
  void begin_step() override {
    client_.take(0);
    client_.check();
    step_began_ = steady_seconds();
    if (has_report_ && step_began_ - reported_ > kReportSeconds) flush();
  }
  void end_step() override { counts_.compute_seconds += steady_seconds() - step_began_; }

  /// Tells the server why this client cannot continue.
  void give_up(const std::string& why) { client_.send({.verb = Verb::leave, .text = why}); }

 protected:
  int sum(std::span<at::Tensor> tensors, std::span<const int> members) override {
    if (is_alone(members)) return 1;
    const double set_out = steady_seconds();
    Message message{.verb = Verb::sum, .tensors = {tensors.begin(), tensors.end()}};
    for (const int member : listed(members)) message.numbers.push_back(member);
    const Message answer = ask(std::move(message));
    check_internal(answer.tensors.size() == tensors.size(), "a sum has as many tensors as what was added");
    for (size_t t = 0; t < tensors.size(); ++t) tensors[t].copy_(answer.tensors[t]);
    if (metered()) {
      ++counts_.collectives;
      counts_.bytes_received += bytes_of(answer.tensors);
      count_time(set_out, answer.numbers.at(kWaited));
    }
    return int(answer.numbers.at(kCame));
  }

 private:
  // indices of an answer's numbers for a collective; kWaited also for a visit
  static constexpr size_t kWaited = 0, kCame = 1, kFirst = 2, kTotal = 3;

  class Overlapped final : public Pending {
   public:
    Overlapped(RemoteHub& hub, uint64_t ticket, bool divides, c10::Device device)
        : hub_(hub),
          ticket_(ticket),
          divides_(divides),
          device_(device),
          metered_(hub.metered()),
          set_out_(steady_seconds()) {}
    std::vector<at::Tensor> wait() override {
      const double began = steady_seconds();
      Message answer = hub_.client_.wait_for_answer(ticket_);
      if (divides_)
        for (at::Tensor& tensor : answer.tensors) tensor.div_(answer.numbers.at(kCame));
      if (metered_) {
        hub_.counts_.bytes_received += bytes_of(answer.tensors);
        const double blocked = steady_seconds() - began, all_came = set_out_ + answer.numbers.at(kWaited);
        const double idle = std::clamp(all_came - began, 0.0, blocked);
        hub_.counts_.idle_seconds += idle;
        hub_.counts_.exchange_seconds += blocked - idle;
      }
      for (at::Tensor& tensor : answer.tensors) tensor = tensor.to(device_);
      return std::move(answer.tensors);
    }

   private:
    RemoteHub& hub_;
    const uint64_t ticket_;
    const bool divides_;
    const c10::Device device_;  ///< of the replica's tensors; messages are on the host
    const bool metered_;
    const double set_out_;  ///< on the steady clock
  };

  std::unique_ptr<Pending> begin(Verb verb, std::vector<at::Tensor> tensors) {
    if (metered()) ++counts_.collectives;
    const c10::Device device = tensors.empty() ? c10::Device(c10::kCPU) : tensors.front().device();
    const uint64_t ticket = set_off({.verb = verb, .tensors = std::move(tensors)});
    return std::make_unique<Overlapped>(*this, ticket, verb == Verb::sum_meanwhile, device);
  }

  bool is_alone(std::span<const int> members) const { return members.size() == 1 || replicas() == 1; }
  /// Empty means all members.
  std::vector<int> listed(std::span<const int> members) const {
    return members.empty() ? std::vector<int>() : checked(members);
  }

  void count_time(double set_out, double waited) {
    counts_.idle_seconds += waited;
    counts_.exchange_seconds += std::max(0.0, steady_seconds() - set_out - waited);
  }

  void flush() {
    if (!std::exchange(has_report_, false)) return;
    client_.send({.verb = Verb::report,
                  .operation = report_.operation,
                  .numbers = std::move(report_.numbers),
                  .tensors = std::move(report_.tensors)});
    report_ = {};
  }

  uint64_t set_off(Message message) {
    flush();
    client_.take(0);
    client_.check();
    message.ticket = ++tickets_;
    message.counted = metered();
    if (metered()) counts_.bytes_sent += bytes_of(message.tensors);
    client_.send(message);
    return message.ticket;
  }
  Message ask(Message message) { return client_.wait_for_answer(set_off(std::move(message))); }

  RemoteClient& client_;
  uint64_t tickets_ = 0;
  bool reports_for_all_ = false;
  double step_began_ = 0;
  Request report_;
  bool has_report_ = false;
  double reported_ = 0;  ///< time of the first report in report_
};

RemoteClient::RemoteClient(RemoteClientOptions options)
    : options_(std::move(options)),
      wire_((check_endpoint(options_.server, /*listens=*/false, !options_.token.empty()), options_.server),
            make_curve_keys(options_.token), options_.largest_message + kLargestHead, options_.heartbeat) {
  join();
  hub_ = std::make_unique<RemoteHub>(*this);
}

RemoteClient::~RemoteClient() = default;

void RemoteClient::join() {
  const double began = steady_seconds();
  send({.verb = Verb::hello, .numbers = {double(options_.wanted)}, .text = options_.about});
  while (number_ < 0) {
    take(kNetworkWaitSeconds);
    check();
    if (!refused_.empty()) fail_user({options_.server, "cannot be joined", refused_, ""});
    if (wire_.state() == ClientWire::State::refused)
      fail_user({options_.server, "cannot be joined",
                 "the server there does not accept this token, or is not trireme serve",
                 fmt::format("give the server's token in {} or --token-file", kTokenVariable)});
    if (number_ < 0 && steady_seconds() - began > options_.patience)
      throw ServerLost(
          Blame::run, {options_.server, "cannot be joined",
                       fmt::format("no server answered for {:.0f} s", options_.patience), "start trireme serve there"});
  }
}

Hub& RemoteClient::hub(int replica) {
  check_internal(replica == number_, "a client has its own end only");
  return *hub_;
}

HubCounts RemoteClient::counts(int replica) { return replica == number_ ? hub_->counts() : HubCounts{}; }

void RemoteClient::abort(const std::string& reason) {
  MutexLock lock(mutex_);
  if (abort_reason_.empty()) abort_reason_ = reason;
}

void RemoteClient::check() const {
  {
    MutexLock lock(mutex_);
    if (!abort_reason_.empty()) fail_run({client_name(number_), "has ended", abort_reason_, ""});
  }
  if (!ended_.empty()) fail_run({client_name(number_), "the server has ended the run", ended_, ""});
  if (wire_.state() == ClientWire::State::lost)
    throw ServerLost(Blame::run, {client_name(number_), fmt::format("the connection to {} broke", options_.server),
                                  "the server ended, or showed no sign of life", ""});
}

void RemoteClient::take(double seconds) {
  for (const std::string& bytes : wire_.receive(seconds)) {
    Message message = decode(bytes);
    switch (message.verb) {
      case Verb::welcome:
        number_ = int(message.numbers.at(0));
        replicas_ = int(message.numbers.at(1));
        welcome_ = std::move(message.text);
        break;
      case Verb::refused: refused_ = message.text; break;
      case Verb::start:
        has_started_ = true;
        clock_ = message.numbers.at(0) - steady_seconds();
        joined_late_ = message.numbers.at(1) != 0;
        first_step_ = int64_t(message.numbers.at(2));
        is_first_ = message.numbers.at(3) != 0;
        break;
      case Verb::answer: answers_[message.ticket] = std::move(message); break;
      case Verb::abort: ended_ = message.text; break;
      default: break;  // a ping
    }
  }
}

void RemoteClient::wait_for_start() {
  while (!has_started_) {
    take(kNetworkWaitSeconds);
    check();
  }
}

Message RemoteClient::wait_for_answer(uint64_t ticket) {
  while (true) {
    if (const auto found = answers_.find(ticket); found != answers_.end()) {
      Message answer = std::move(found->second);
      answers_.erase(found);
      return answer;
    }
    check();
    take(kNetworkWaitSeconds);
  }
}

void RemoteClient::run(const std::function<void(Hub&)>& body) {
  try {
    hub_->enter();
    body(*hub_);
    hub_->leave();
  } catch (const ServerLost&) {
    throw;
  } catch (const std::exception& error) {
    if (ended_.empty()) hub_->give_up(first_line(error));
    throw;
  }
}

}  // namespace trireme
