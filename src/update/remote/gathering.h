// Collectives of clients that come one by one: what each brought waits here until all have come.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "update/remote/message.h"

namespace trireme {

/// Those of one set of members are matched in the order in which each of them comes: a client's first with the others'
/// first. What goes on meanwhile has an order of its own. Sums add up in the order of the clients' numbers, as in
/// comm/local: the same bits. Not thread-safe.
class Gathering {
 public:
  explicit Gathering(int clients) : clients_(clients) {}

  struct Answer {
    int client = 0;
    Message message;
  };

  /// `here[c]`: whether client c can still come; nobody waits for the others. Returns the answers that are due now.
  /// Errors (run): members that are none, or who does not bring the same as the others.
  std::vector<Answer> add(int client, Message message, double now, const std::vector<bool>& here);

  /// What the client brought does not count, where it has not been used.
  void forget(int client);
  /// After somebody has been lost.
  std::vector<Answer> without(const std::vector<bool>& here, double now);

 private:
  struct Brought {
    Message message;
    double came = 0;
  };
  using Key = std::pair<bool, std::vector<int>>;      ///< goes on meanwhile; members
  using Queues = std::map<int, std::deque<Brought>>;  ///< by member: oldest first

  Key key_of(const Message& message, int client) const;
  static bool is_complete(const Key& key, const Queues& queues, const std::vector<bool>& here);
  static std::vector<Answer> finish(Queues& queues, double now);

  const int clients_;
  std::map<Key, Queues> open_;
};

}  // namespace trireme
