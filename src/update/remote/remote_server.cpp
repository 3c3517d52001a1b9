#include "update/remote/remote_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/seconds.h"
#include "base/text.h"
#include "trireme/error.h"
#include "update/hub/hub_counts.h"

namespace trireme {
namespace {

constexpr double kMessageWaitSeconds = 0.05;   // wait for messages before deadlines and aborts are checked
constexpr double kPresenceLookSeconds = 0.25;  // between two checks of the clients' presence

std::string why_dropped(const std::exception& error) {
  return fmt::format("it sent an invalid message: {}", first_line(error));
}

/// Adds the counts that a client could not report itself.
void add_lost(const HubCounts& seen, HubCounts& counts) {
  counts.bytes_sent += seen.bytes_sent;
  counts.bytes_received += seen.bytes_received;
  counts.collectives += seen.collectives;
  counts.visits += seen.visits;
}

}  // namespace

RemoteServer::RemoteServer(int clients, ShardServer* server, RemoteServerOptions options)
    : server_(server),
      options_(std::move(options)),
      wire_((check_endpoint(options_.listen, /*listens=*/true, !options_.token.empty()), options_.listen),
            make_curve_keys(options_.token), options_.largest_message + kLargestHead, options_.heartbeat),
      gathering_(clients),
      clients_(size_t(clients)),
      parked_(server ? size_t(server->shards()) : 0),
      began_(steady_seconds()) {}

RemoteServer::~RemoteServer() = default;

double RemoteServer::now() const { return steady_seconds() - began_; }

Hub& RemoteServer::hub(int) { fail_run({"server of replicas", "a replica's end", "is in another process", ""}); }

void RemoteServer::abort(const std::string& reason) {
  MutexLock lock(mutex_);
  if (abort_reason_.empty()) abort_reason_ = reason;
  aborted_ = true;
}

void RemoteServer::tell(const std::string& line) const {
  if (options_.on_event) options_.on_event(line);
}

int RemoteServer::count(Is is) const {
  return int(std::count_if(clients_.begin(), clients_.end(), [&](const Client& client) { return client.is == is; }));
}

int RemoteServer::client_of(const std::string& peer) const {
  const auto found =
      std::find_if(clients_.begin(), clients_.end(), [&](const Client& client) { return client.peer == peer; });
  return found == clients_.end() ? -1 : int(found - clients_.begin());
}

std::vector<bool> RemoteServer::present_clients() const {
  std::vector<bool> here;
  for (const Client& client : clients_)
    here.push_back(client.is == Is::here || (!started_ && (client.is == Is::joined || client.is == Is::awaited)));
  return here;
}

void RemoteServer::end(const std::string& reason) {
  for (Client& client : clients_) {
    if (!client.peer.empty()) wire_.send(client.peer, encode({.verb = Verb::abort, .text = reason}));
    add_lost(std::exchange(client.seen, {}), client.counts);  // it will report nothing
  }
  fail_run({"server of replicas", "the run has ended", reason, ""});
}

bool RemoteServer::is_over() {
  if (aborted_) {
    MutexLock lock(mutex_);
    end(abort_reason_);
  }
  if ((started_ ? 0 : count(Is::awaited)) + count(Is::joined) + count(Is::here) > 0) return false;
  if (count(Is::left) > 0) return true;
  if (options_.when_lost == UpdatePolicy::WhenLost::may_return) return false;  // a client may return
  end("all clients were lost");
}

void RemoteServer::run(const std::function<void(Hub&)>&) {
  while (!is_over()) {
    for (const ServerWire::Arrival& arrival : wire_.receive(kMessageWaitSeconds)) take(arrival);
    look_after();
  }
}

void RemoteServer::take(const ServerWire::Arrival& arrival) {
  const int client = client_of(arrival.peer);
  try {
    if (arrival.too_large)
      fail_run({"message", "is too large", fmt::format("at most {} bytes are expected", options_.largest_message), ""});
    Message message = decode(arrival.bytes);
    if (client >= 0) return handle(client, std::move(message));
    if (message.verb == Verb::hello) return greet(arrival.peer, message);
    // a lost client that does not know yet that it is lost
  } catch (const std::exception& error) {
    if (client >= 0) {
      to_lose_.emplace_back(client, why_dropped(error));
      return;
    }
    wire_.send(arrival.peer, encode({.verb = Verb::refused, .text = first_line(error)}));
    wire_.ignore(arrival.peer);
    tell(fmt::format("a client with the token was refused: {}", first_line(error)));
  }
}

int RemoteServer::number_for(double wanted, std::string& why_not) const {
  const bool may_return = started_ && options_.when_lost == UpdatePolicy::WhenLost::may_return;
  const auto is_free = [&](const Client& client) {
    return client.is == Is::awaited || (may_return && client.is == Is::lost);
  };
  if (wanted < 0 || std::isnan(wanted)) {
    const auto free = std::find_if(clients_.begin(), clients_.end(), is_free);
    if (free != clients_.end()) return int(free - clients_.begin());
    why_not = fmt::format("all {} clients have joined", clients_.size());
    return -1;
  }
  if (!(wanted < double(clients_.size()))) {
    why_not = fmt::format("there is no client {:.0f}: they are 0 to {}", wanted, clients_.size() - 1);
    return -1;
  }
  const auto number = int(wanted);
  const Client& client = clients_[size_t(number)];
  if (is_free(client)) return number;
  why_not = client.is == Is::left ? fmt::format("client {} has finished", number)
            : client.is == Is::lost
                ? fmt::format("client {} was lost, and under this policy a lost client cannot return", number)
                : fmt::format("client {} is already connected", number);
  return -1;
}

void RemoteServer::greet(const std::string& peer, const Message& hello) {
  std::string why_not = options_.differs ? options_.differs(hello.text) : "";
  const int number = why_not.empty() ? number_for(hello.numbers.empty() ? -1 : hello.numbers.front(), why_not) : -1;
  if (number < 0) {
    wire_.send(peer, encode({.verb = Verb::refused, .text = why_not}));
    wire_.ignore(peer);
    return tell(fmt::format("a client was refused: {}", why_not));
  }
  Client& client = clients_[size_t(number)];
  const bool returns = client.is == Is::lost;
  client.is = Is::joined;
  client.peer = peer;
  const int joined = int(clients_.size()) - count(Is::awaited);
  tell(returns ? fmt::format("client {} has returned", number)
               : fmt::format("client {} has joined, {} of {}", number, joined, clients_.size()));
  send(number, {.verb = Verb::welcome, .numbers = {double(number), double(clients_.size())}, .text = options_.welcome});
  if (!started_) start_if_enough_are_here();
}

void RemoteServer::start_if_enough_are_here() {
  if (count(Is::joined) < (options_.enough > 0 ? options_.enough : replicas())) return;
  for (int client = 0; server_ && client < replicas(); ++client)
    if (clients_[size_t(client)].is == Is::awaited) server_->lose(client, now());
  if (server_) server_->start(now());
  const std::vector<Client>::iterator first =
      std::find_if(clients_.begin(), clients_.end(), [](const Client& c) { return c.is == Is::joined; });
  reporter_ = int(first - clients_.begin());
  for (int client = 0; client < replicas(); ++client)
    if (clients_[size_t(client)].is == Is::joined) start(client);
  started_ = true;
}

bool RemoteServer::all_have_begun() const {
  return std::all_of(clients_.begin(), clients_.end(),
                     [](const Client& c) { return c.has_begun || c.is == Is::awaited || c.is == Is::joined; });
}

/// Starts clients that joined late. It waits until all clients that began the run have begun, because these first make
/// collectives together, without later ones.
void RemoteServer::start_late_clients() {
  if (!started_ || !all_have_begun()) return;
  for (int client = 0; client < replicas(); ++client)
    if (clients_[size_t(client)].is == Is::joined) start(client);
}

void RemoteServer::start(int client) {
  const bool late = started_;
  clients_[size_t(client)].is = Is::here;
  clients_[size_t(client)].has_begun |= late;
  if (late && server_) server_->readmit(client, now());
  const int64_t first = options_.first_step ? options_.first_step(client) : 0;
  send(client, {.verb = Verb::start,
                .numbers = {now(), late ? 1.0 : 0.0, double(first), client == reporter_ && !late ? 1.0 : 0.0}});
  for (size_t s = 0; late && s < parked_.size(); ++s) offer_parked(int(s));
}

void RemoteServer::handle(int client, Message message) {
  if (message.verb == Verb::leave) return leave(client, message);
  if (clients_[size_t(client)].is != Is::here) fail_run({"message", "came before the start", "", ""});
  if (message.verb != Verb::report) see(client, message);
  switch (message.verb) {
    case Verb::sum:
    case Verb::total:
    case Verb::sum_meanwhile:
    case Verb::gather: return send_all(gathering_.add(client, std::move(message), now(), present_clients()));
    case Verb::visit: return visit(client, std::move(message));
    case Verb::report:
      clients_[size_t(client)].has_begun = true;
      if (options_.on_report)
        options_.on_report(client, {message.operation, std::move(message.tensors), std::move(message.numbers)});
      return;
    default: fail_run({"message", "has a verb that is not a client's", "", ""});
  }
}

void RemoteServer::see(int client, const Message& message) {
  Client& entry = clients_[size_t(client)];
  if (!message.counted || message.verb == Verb::total) return;
  ++(message.verb == Verb::visit ? entry.seen.visits : entry.seen.collectives);
  entry.seen.bytes_sent += bytes_of(message.tensors);
  entry.asked.insert(message.ticket);
}

void RemoteServer::visit(int client, Message message) {
  if (message.shard < 0 || message.shard >= int(parked_.size()))
    fail_run({"message", fmt::format("visits shard {}", message.shard), "there is none", ""});
  std::vector<Parked>& queue = parked_[size_t(message.shard)];
  if (std::any_of(queue.begin(), queue.end(), [&](const Parked& parked) { return parked.client == client; }))
    fail_run({"message", fmt::format("visits shard {}", message.shard), "its last visit is not over", ""});
  Parked asked{
      client, message.ticket, {message.operation, std::move(message.tensors), std::move(message.numbers)}, now()};
  std::optional<Reply> reply = server_->serve(message.shard, client, asked.request, now());
  if (!reply) return queue.push_back(std::move(asked));
  answer_visit(asked, std::move(*reply));
  offer_parked(message.shard);
}

void RemoteServer::offer_parked(int shard) {
  std::vector<Parked>& queue = parked_[size_t(shard)];
  for (bool again = true; again;) {
    again = false;
    for (size_t i = 0; i < queue.size();) {
      std::optional<Reply> reply;
      try {
        reply = server_->serve(shard, queue[i].client, queue[i].request, now());
      } catch (const std::exception& error) {
        to_lose_.emplace_back(queue[i].client, why_dropped(error));
      }
      if (!reply) {
        ++i;
        continue;
      }
      const Parked parked = std::move(queue[i]);
      queue.erase(queue.begin() + std::ptrdiff_t(i));
      answer_visit(parked, std::move(*reply));
      again = true;
    }
  }
}

void RemoteServer::answer_visit(const Parked& parked, Reply reply) {
  Message message{.verb = Verb::answer,
                  .ticket = parked.ticket,
                  .numbers = std::move(reply.numbers),
                  .tensors = std::move(reply.tensors)};
  message.numbers.insert(message.numbers.begin(), now() - parked.came);
  send(parked.client, message);
}

void RemoteServer::leave(int client, const Message& message) {
  Client& entry = clients_[size_t(client)];
  if (!message.text.empty()) {
    to_lose_.emplace_back(client, message.text);
    return;
  }
  HubCounts reported = counts_from(message.numbers);
  add_lost(entry.counts, reported);
  entry.counts = std::move(reported);
  entry.is = Is::left;
  entry.has_begun = true;
  send(client, {.verb = Verb::answer, .ticket = message.ticket});
  wire_.ignore(std::exchange(entry.peer, {}));
  tell(fmt::format("client {} has finished", client));
}

void RemoteServer::lose(int client, const std::string& why) {
  Client& entry = clients_[size_t(client)];
  if (entry.peer.empty()) return;                                      // already lost
  wire_.send(entry.peer, encode({.verb = Verb::abort, .text = why}));  // if it is still connected
  wire_.ignore(std::exchange(entry.peer, {}));
  if (entry.is == Is::joined) {
    entry.is = Is::awaited;
    return tell(fmt::format("client {} disconnected before its start: {}", client, why));
  }
  entry.is = Is::lost;
  add_lost(std::exchange(entry.seen, {}), entry.counts);
  entry.asked.clear();
  tell(fmt::format("client {} was lost: {}", client, why));
  if (options_.when_lost == UpdatePolicy::WhenLost::ends || !all_have_begun())
    end(fmt::format("client {} was lost: {}", client, why));
  for (auto& queue : parked_) std::erase_if(queue, [&](const Parked& parked) { return parked.client == client; });
  gathering_.forget(client);
  if (server_) server_->lose(client, now());
  for (size_t s = 0; s < parked_.size(); ++s) offer_parked(int(s));
  send_all(gathering_.without(present_clients(), now()));
}

void RemoteServer::look_after() {
  const double time = now();
  for (size_t s = 0; s < parked_.size(); ++s)
    if (!parked_[s].empty() && time >= server_->deadline(int(s))) offer_parked(int(s));
  if (time - looked_ >= kPresenceLookSeconds) {
    looked_ = time;
    for (size_t c = 0; c < clients_.size(); ++c)
      if (!clients_[c].peer.empty()) send(int(c), {.verb = Verb::ping});
  }
  while (!to_lose_.empty()) {
    const auto [client, why] = to_lose_.front();
    to_lose_.erase(to_lose_.begin());
    lose(client, why);
  }
  start_late_clients();
}

void RemoteServer::send(int client, const Message& message) {
  Client& entry = clients_[size_t(client)];
  if (message.verb == Verb::answer && entry.asked.erase(message.ticket) > 0)
    entry.seen.bytes_received += bytes_of(message.tensors);
  const std::string& peer = entry.peer;
  if (!peer.empty() && !wire_.send(peer, encode(message)))
    to_lose_.emplace_back(client, "its connection ended, or it showed no sign of life");
}

void RemoteServer::send_all(const std::vector<Gathering::Answer>& answers) {
  for (const Gathering::Answer& answer : answers) send(answer.client, answer.message);
}

}  // namespace trireme
