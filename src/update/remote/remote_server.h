// The server of replicas that are processes: it holds the parameter server's shards, where the policy has any, and
// everything that replicas exchange goes through it, collectives too: a star.
//
// One thread does it all, in run(): it takes a message, answers what can be answered, and looks who is still there. So
// calls of the ShardServer exclude each other, and nobody is told of anything while it works.
//
// A client joins with the token (wire.h), says what it is about to train, gets a number, and begins when all have
// joined, or so many as are enough where the policy takes back who was lost: who joins later is taken in like one who
// comes back. One whose connection ends, or that shows no sign of life for WireHeartbeat::lost_after, is lost: that
// ends the run, or the others go on, as UpdatePolicy::when_lost says. A message that is none, from a client that has
// the token, loses that client, never the server.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "comm/rendezvous/wire.h"
#include "update/policy.h"
#include "update/remote/gathering.h"

namespace trireme {

struct RemoteServerOptions {
  std::string listen = "tcp://127.0.0.1:*";
  std::string token;            ///< "": anybody on this machine may join
  int64_t largest_message = 0;  ///< bytes of tensors that a client may send at once
  WireHeartbeat heartbeat = {};
  UpdatePolicy::WhenLost when_lost = UpdatePolicy::WhenLost::ends;
  int enough =
      0;  ///< clients to begin with, others may join later; 0: all. Fewer than all: with WhenLost::may_return only
  /// What a client that says `theirs` may not join for, in words; "": it may.
  std::function<std::string(const std::string& theirs)> differs = {};
  std::string welcome;                                 ///< what clients are told on joining
  std::function<int64_t(int client)> first_step = {};  ///< that a client that begins is to make; see Hub::first_step
  std::function<void(const std::string& line)> on_event = {};  ///< somebody joined, was lost, came back
  std::function<void(int client, const Request& report)> on_report =
      {};  ///< Hub::report. What it throws loses the client
};

/// All callbacks are called by the thread that is in run(). abort may come from any thread, all else belongs to one.
class RemoteServer final : public HubWorld {
 public:
  /// Listens from here on; who comes before run() waits. `server`: null where the policy has none; outlives this.
  /// Errors: those of check_endpoint and ServerWire.
  RemoteServer(int clients, ShardServer* server, RemoteServerOptions options);
  ~RemoteServer() override;

  const std::string& endpoint() const { return wire_.endpoint(); }

  int replicas() const override { return int(clients_.size()); }
  bool serves() const override { return true; }
  double now() const override;
  /// There is none here.
  Hub& hub(int replica) override;
  /// Clients are told.
  void abort(const std::string& reason) override;
  /// Serves until all clients have left. `body` is not called. Errors (run): aborted; a client was lost that the others
  /// need, or all were.
  void run(const std::function<void(Hub&)>& body) override;
  /// What the client said when it left. Of one that was lost, and of its earlier lives where it came back, what the
  /// server saw: bytes, collectives and visits.
  HubCounts counts(int replica) override { return clients_.at(size_t(replica)).counts; }

 private:
  enum class Is {
    awaited,  ///< has never been here
    joined,   ///< and has not been told to begin
    here,
    left,  ///< is through
    lost
  };
  struct Client {
    Is is = Is::awaited;
    std::string peer;  ///< its connection, where it is here
    bool has_begun =
        false;         ///< nobody waits for it to begin: it has reported something, or the others had begun before it
    HubCounts counts;  ///< of what is over
    HubCounts seen;    ///< since it came
    std::set<uint64_t> asked = {};  ///< tickets of what is to be counted when it is answered
  };
  struct Parked {  // a request that was put off
    int client;
    uint64_t ticket;
    Request request;
    double came;
  };

  void tell(const std::string& line) const;
  bool is_over();
  void take(const ServerWire::Arrival& arrival);
  void handle(int client, Message message);
  void see(int client, const Message& message);
  void greet(const std::string& peer, const Message& hello);
  int number_for(double wanted, std::string& why_not) const;
  void start_if_enough_are_here();
  void start(int client);
  void visit(int client, Message message);
  void offer_parked(int shard);
  void answer_visit(const Parked& parked, Reply reply);
  void leave(int client, const Message& message);
  void lose(int client, const std::string& why);
  void look_after();
  /// To a client that is here; loses one that is gone.
  void send(int client, const Message& message);
  void send_all(const std::vector<Gathering::Answer>& answers);
  std::vector<bool> who_is_here() const;
  int count(Is is) const;
  int client_of(const std::string& peer) const;
  /// Tells all and throws.
  [[noreturn]] void end(const std::string& reason);

  ShardServer* const server_;
  const RemoteServerOptions options_;
  ServerWire wire_;
  Gathering gathering_;
  std::vector<Client> clients_;
  std::vector<std::vector<Parked>> parked_;  ///< by shard, in order of arrival
  const double began_;                       ///< on the steady clock
  bool started_ = false;
  int speaks_ = 0;                                    ///< the first of those that began it
  double looked_ = 0;                                 ///< when last
  std::vector<std::pair<int, std::string>> to_lose_;  ///< found gone while something else was done

  std::atomic<bool> aborted_ = false;
  Mutex mutex_;
  std::string abort_reason_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme
