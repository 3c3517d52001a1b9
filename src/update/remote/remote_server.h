// The server of replicas that are processes. It holds the parameter server's shards, if the policy has any. All
// exchanges between replicas, including collectives, go through it (a star).
//
// One thread does everything, in run(): it receives a message, answers what can be answered, and checks which clients
// are present. So calls of the ShardServer exclude each other, and no client is notified during such a call.
//
// A client joins with the token (wire.h), states what it will train, and gets a number. It begins when all clients have
// joined or, if the policy allows lost replicas to return, when `enough` have. A client that joins later is treated
// like one that returns; it is started when all clients that began the run have begun. A client whose connection ends,
// or that shows no sign of life for WireHeartbeat::lost_after, is lost. Then the run ends or the others continue, see
// UpdatePolicy::when_lost. An invalid message from a client with the token loses that client, never the server.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "comm/rendezvous/wire.h"
#include "trireme/policy.h"
#include "update/hub/hub_world.h"
#include "update/remote/gathering.h"

namespace trireme {

struct RemoteServerOptions {
  std::string listen = "tcp://127.0.0.1:*";
  std::string token;            ///< "": any process on this machine may join
  int64_t largest_message = 0;  ///< maximum bytes of tensors that a client may send at once
  WireHeartbeat heartbeat = {};
  UpdatePolicy::WhenLost when_lost = UpdatePolicy::WhenLost::ends;
  /// number of clients to begin with, others may join later; 0: all. Fewer than all only with WhenLost::may_return
  int enough = 0;
  /// Returns why a client that states `theirs` may not join; "": it may.
  std::function<std::string(const std::string& theirs)> differs = {};
  std::string welcome;                                 ///< text sent to clients when they join
  std::function<int64_t(int client)> first_step = {};  ///< first step of a client that begins; see Hub::first_step
  std::function<void(const std::string& line)> on_event = {};  ///< called when a client joined, was lost or returned
  /// see Hub::report; an exception from it loses the client
  std::function<void(int client, const Request& report)> on_report = {};
};

/// All callbacks are called on the thread that is in run(). abort is thread-safe; all other functions are used by one
/// thread.
class RemoteServer final : public HubWorld {
 public:
  /// Listens from now on; clients that connect before run() wait. `server`: null if the policy has none; must outlive
  /// this object. Errors: those of check_endpoint and ServerWire.
  RemoteServer(int clients, ShardServer* server, RemoteServerOptions options);
  ~RemoteServer() override;

  const std::string& endpoint() const { return wire_.endpoint(); }

  int replicas() const override { return int(clients_.size()); }
  bool serves() const override { return true; }
  double now() const override;
  /// Always throws: the replicas are in other processes.
  Hub& hub(int replica) override;
  /// Aborts the run. Clients are notified.
  void abort(const std::string& reason) override;
  /// Serves until all clients have left. `body` is not called. Errors (run): aborted; a client was lost that the other
  /// clients need, or all were lost.
  void run(const std::function<void(Hub&)>& body) override;
  /// Returns the counts that the client reported when it left. For lost clients, for all that were there when the run
  /// was aborted, and for a returned client's earlier connections: the bytes, collectives and visits that the server
  /// saw.
  HubCounts counts(int replica) override { return clients_.at(size_t(replica)).counts; }

 private:
  enum class Is {
    awaited,  ///< has never been present
    joined,   ///< has not received the start message
    here,
    left,  ///< has finished
    lost
  };
  struct Client {
    Is is = Is::awaited;
    std::string peer;  ///< its connection, if present
    /// true after it has reported something or left, or if the others had begun before it; losing it before that ends
    /// the run
    bool has_begun = false;
    HubCounts counts;               ///< of finished connections
    HubCounts seen;                 ///< since it joined
    std::set<uint64_t> asked = {};  ///< tickets of requests to be counted when they are answered
  };
  struct Parked {  // a request that the server makes wait
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
  /// True if all clients that began the run have begun; later ones are not waited for.
  bool all_have_begun() const;
  void start_late_clients();
  void start(int client);
  void visit(int client, Message message);
  void offer_parked(int shard);
  void answer_visit(const Parked& parked, Reply reply);
  void leave(int client, const Message& message);
  void lose(int client, const std::string& why);
  void look_after();
  /// Sends to a client that is present. A client that is gone becomes lost.
  void send(int client, const Message& message);
  void send_all(const std::vector<Gathering::Answer>& answers);
  std::vector<bool> present_clients() const;
  int count(Is is) const;
  int client_of(const std::string& peer) const;
  /// Notifies all clients and throws.
  [[noreturn]] void end(const std::string& reason);

  ShardServer* const server_;
  const RemoteServerOptions options_;
  ServerWire wire_;
  Gathering gathering_;
  std::vector<Client> clients_;
  std::vector<std::vector<Parked>> parked_;  ///< by shard, in order of arrival
  const double began_;                       ///< on the steady clock
  bool started_ = false;
  int reporter_ = 0;                                  ///< number of the first of the clients that began the run
  double looked_ = 0;                                 ///< time of the last check
  std::vector<std::pair<int, std::string>> to_lose_;  ///< clients found gone during other work

  std::atomic<bool> aborted_ = false;
  Mutex mutex_;
  std::string abort_reason_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme
