// Which clients work in which round of federated learning, and when a round is over. No weights here.
//
// McMahan et al., "Communication-efficient learning of deep networks from decentralized data", 2017: each round max(C
// K, 1) of K clients.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "trireme/policy_state.h"

namespace trireme {

/// What happened in a round.
struct RoundRecord {
  int64_t round = 0;  ///< 0-based
  int selected = 0;
  int answered = 0;                       ///< and are in the new weights
  int refused = 0;                        ///< answered with values that are no numbers
  std::vector<int> refused_clients = {};  ///< those
  int clipped = 0;                        ///< of those answered: their update was scaled down
  int late = 0;                           ///< answers to earlier rounds that came in this one, and were not used
  double samples = 0;                     ///< that the answers stand for
  double seconds = 0;                     ///< on the hub's clock: when the round was over
};

/// Copies them out or in, under names that begin with `prefix`.
void record_fields(StateFields& fields, const std::string& prefix, std::vector<RoundRecord>& records);

struct RoundOptions {
  int clients = 1;
  int64_t rounds = 1;   ///< 0: until stop()
  double fraction = 1;  ///< C
  double timeout = 0;   ///< seconds; a round that lasts longer is over with who has answered. 0: never
  uint64_t seed = 0;
};

/// Not thread-safe. Clients are numbered from 0.
class FederatedRounds {
 public:
  /// Begins round 0 at time 0.
  explicit FederatedRounds(const RoundOptions& options);
  /// Round 0, in which nobody has begun, begins now instead, with clients that are here.
  void start(double now) { select(now); }

  bool is_over() const {
    return stopped_ || (options_.rounds > 0 && round_ >= options_.rounds) || gone_ == options_.clients;
  }
  int64_t round() const { return round_; }
  /// When the open round is over even if clients are missing; infinity: never.
  double deadline() const { return deadline_; }

  /// Whether the client works in the open round and has not begun.
  bool may_begin(int client) const { return work_[size_t(client)] == Work::selected; }
  void begin(int client) { work_[size_t(client)] = Work::begun; }
  /// Of the client's work in that round. Whether the answer counts: it is the open round's and its first.
  bool answer(int client, int64_t round);
  /// The client takes no part any more; nobody waits for it.
  void leave(int client);
  /// One that has left takes part again: from the next round on, or in the open one where nobody else is there.
  void come_back(int client, double now);
  /// The same as leave, until take_back. While all that have not left are lost no round ends.
  void lose(int client);
  /// It may be selected again from the next round on, or in the open one where nobody else is there.
  void take_back(int client, double now);

  /// Nobody is missing or time is up.
  bool is_complete(double now) const { return !is_over() && is_anybody_here() && (missing_ == 0 || now >= deadline_); }
  /// Ends the open round and selects the next one's clients.
  void next(double now);
  /// Ends the open round; there are no more.
  void stop() { stopped_ = true; }
  /// There are more rounds after all, where the options do not count them.
  void reopen() { stopped_ = stopped_ && options_.rounds > 0; }

  /// The client's work in the open round is lost; it begins it again.
  void begin_anew(int client);

  /// Under names that begin with "rounds". The open round has as long left at `now`, when they are copied in, as it had
  /// when they were copied out; clients that were lost are back.
  void fields(StateFields& fields, double now);
  /// The open round ends so much later.
  void delay(double seconds) { deadline_ += seconds; }

  RoundRecord& record() { return record_; }  ///< of the open round
  /// Clients of a round, ascending: a function of the seed and the round, but for clients that have left or are lost.
  std::vector<int> selection(int64_t round) const;

 private:
  enum class Work { idle, selected, begun, gone, lost };
  bool is_out(int client) const { return work_[size_t(client)] == Work::gone || work_[size_t(client)] == Work::lost; }
  bool is_anybody_here() const { return lost_ + gone_ < options_.clients; }
  void select(double now);

  const RoundOptions options_;
  int64_t round_ = 0;
  std::vector<Work> work_;  ///< by client
  int missing_ = 0;         ///< answers of the open round
  int gone_ = 0, lost_ = 0;
  bool stopped_ = false;
  double deadline_ = std::numeric_limits<double>::infinity();
  RoundRecord record_;
};

}  // namespace trireme
