// Collectives of clients whose calls arrive one after the other: each client's data are held until all have arrived.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "update/remote/message.h"

namespace trireme {

/// Collectives of one set of members are matched in the order in which each member's calls arrive: a client's first
/// call with the others' first calls. Background collectives are ordered separately. Sums are added in the order of the
/// clients' numbers, as in comm/local, so they have the same bits. Not thread-safe.
class Gathering {
 public:
  explicit Gathering(int clients) : clients_(clients) {}

  struct Answer {
    int client = 0;
    Message message;
  };

  /// `here[c]`: true if client c can still arrive; other clients are not waited for. Returns the answers that are due
  /// now. Errors (run): invalid members, or a client whose call does not match the others'.
  std::vector<Answer> add(int client, Message message, double now, const std::vector<bool>& here);

  /// Drops the client's data that have not been used yet.
  void forget(int client);
  /// Returns the answers that are due after a client was lost.
  std::vector<Answer> without(const std::vector<bool>& here, double now);

 private:
  struct Brought {
    Message message;
    double came = 0;
  };
  using Key = std::pair<bool, std::vector<int>>;      ///< background collective or not; members
  using Queues = std::map<int, std::deque<Brought>>;  ///< by member; oldest first

  Key key_of(const Message& message, int client) const;
  static bool is_complete(const Key& key, const Queues& queues, const std::vector<bool>& here);
  static std::vector<Answer> finish(Queues& queues, double now);

  const int clients_;
  std::map<Key, Queues> open_;
};

}  // namespace trireme
